"""Our own answers to hard questions of DABench: a cell each, after `# %%` and its number.

They run in the notebook of the task, where `pd` is pandas and `data` the table; `answer` is given
the values in the order in which the question wants them.
"""
# ruff: noqa: E402, F821
# mypy: ignore-errors

# %% 109
from scipy.stats import ttest_ind

loans = data.dropna(subset=["LoanAmount"]).groupby("Education")["LoanAmount"]
graduate, other = loans.get_group("Graduate"), loans.get_group("Not Graduate")
differ = ttest_ind(graduate, other).pvalue < 0.05
answer(f"{graduate.mean():.2f}")
answer(f"{other.mean():.2f}")
answer("significant" if differ else "no significant")

# %% 142
from scipy.stats import pearsonr

votes = data["diff"].str.replace(",", "").astype(float)
points = data["per_point_diff"].str.rstrip("%").astype(float)
r, p = pearsonr(votes, points)
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
answer(f"{r:.2f}")
answer(f"{p:.4f}")
answer(kind)

# %% 249
from scipy.stats import pearsonr

r, p = pearsonr(data["number_of_doubles"], data["salary_in_thousands_of_dollars"])
answer(f"{r:.2f}")
answer(f"{p:.4f}")

# %% 308
titles = data["Name"].str.extract(r"\b(Mr|Mrs|Miss|Master)\.")[0]
means = data.groupby(titles)["Fare"].mean()
for title in ("Mr", "Mrs", "Miss", "Master"):
    answer(f"{means[title]:.2f}")

# %% 309
from scipy.stats import kurtosis, skew

for values in (data["Age"].dropna(), data["Fare"]):
    near = values.between(values.mean() - values.std(), values.mean() + values.std())
    answer(f"{skew(values):.2f}")
    answer(f"{kurtosis(values):.2f}")
    answer(near.sum())

# %% 310
import numpy as np

r = data[["Age", "Fare", "SibSp", "Parch"]].corr()
pairs = r.where(np.triu(np.ones(r.shape, dtype=bool), k=1)).stack()
answer(", ".join(pairs.idxmax()))
answer(f"{pairs.max():.2f}")

# %% 415
from scipy.stats import ttest_ind

fares = data[data["Sex"] == "male"].groupby("Survived")["Fare"]
survived, others = fares.get_group(1), fares.get_group(0)
differ = ttest_ind(survived, others).pvalue < 0.05
answer(f"{survived.mean():.2f}")
answer(f"{survived.std():.2f}")
answer(f"{others.mean():.2f}")
answer(f"{others.std():.2f}")
answer("significant" if differ else "not significant")

# %% 452
from scipy.stats import pearsonr

south = data[data[" DIR"] == 180].dropna(subset=[" WINDSPEED", " BARO"])
r, p = pearsonr(south[" WINDSPEED"], south[" BARO"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
answer(f"{r:.2f}")
answer(f"{p:.4f}")
answer(kind)

# %% 496
fields = ["Computer Science", "Engineering", "Math and Statistics", "Physical Sciences"]
stem = data.loc[data["Year"] >= 2000, fields].sum(axis=1)
answer(f"{stem.mean():.2f}")
answer(f"{stem.max() - stem.min():.2f}")

# %% 530
from scipy.stats import pearsonr

known = data.dropna(subset=["Age", "Fare"]).groupby("Sex")
for sex in ("male", "female"):
    rows = known.get_group(sex)
    r, p = pearsonr(rows["Age"], rows["Fare"])
    kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
    answer(f"{r:.2f}")
    answer(f"{p:.4f}")
    answer(kind)

# %% 574
prices = data[["MSFT.O", "SPY", ".VIX"]].dropna()
scaled = (prices - prices.min()) / (prices.max() - prices.min())
r = scaled.corr()
answer(f"{r.loc['MSFT.O', 'SPY']:.2f}")
answer(f"{r.loc['MSFT.O', '.VIX']:.2f}")
answer(f"{r.loc['SPY', '.VIX']:.2f}")

# %% 575
from scipy.stats import pearsonr

prices = data[["AAPL.O", "MSFT.O", "AMZN.O", ".SPX"]].dropna()
r, p = pearsonr(prices[["AAPL.O", "MSFT.O", "AMZN.O"]].mean(axis=1), prices[".SPX"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
answer(f"{r:.2f}")
answer(f"{p:.4f}")
answer(kind)

# %% 604
from scipy.stats import zscore

values = data["SWX"].dropna()
far = abs(zscore(values)) > 3
answer(far.sum())
answer(f"{values[~far].mean():.3f}")
answer(f"{values[~far].std():.3f}")

# %% 647
from scipy.stats import shapiro

spread = data["High"] - data["Low"]
p = shapiro(spread).pvalue
answer(f"{spread.mean():.2f}")
answer(f"{spread.std():.2f}")
answer(f"{p:.4f}")
answer("yes" if p > 0.05 else "no")

# %% 665
close = data["Close"].fillna(data["Close"].mean())
low, high = close.quantile([0.25, 0.75])
for chosen in (close >= high, (close > low) & (close < high), close <= low):
    answer(chosen.sum())
    answer(f"{chosen.mean():.2f}")

# %% 669
income = data["MedInc"]
low, high = income.quantile([0.25, 0.75])
kept = income[income.between(low - 1.5 * (high - low), high + 1.5 * (high - low))]
answer(f"{kept.mean():.2f}")
answer(f"{kept.std():.2f}")

# %% 685
from scipy.stats import pearsonr

r, p = pearsonr(data["pressure"], data["wind_speed"])
answer(f"{r:.2f}")
answer(f"{p:.4f}")
answer("significant" if p < 0.05 else "not significant")

# %% 724
from scipy.stats import zscore

kept = data["acceleration"][abs(zscore(data["acceleration"])) <= 3]
answer(f"{kept.mean():.2f}")
answer(f"{kept.std(ddof=0):.2f}")

# %% 726
import numpy as np

power = pd.to_numeric(data["horsepower"], errors="coerce")
logs = np.log(power.fillna(power.mean()))
answer(f"{logs.mean():.2f}")
answer(f"{logs.std():.2f}")

# %% 733
import numpy as np

logs = np.log10(data["gdppercap"])
answer(logs.isna().any())
answer(f"{logs.mean():.2f}")
answer(f"{logs.std():.2f}")
