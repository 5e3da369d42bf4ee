"""Our own answers to medium questions of DABench: a cell each, after `# %%` and its number.

They run in the notebook of the task, where `pd` is pandas and `data` the table; `answer` is given
the values in the order in which the question wants them.
"""
# ruff: noqa: E402, F821
# mypy: ignore-errors

# %% 5
family = data["SibSp"] + data["Parch"]
answer(f"{family.corr(data['Fare']):.2f}")

# %% 11
from scipy.stats import pearsonr

r, p = pearsonr(data["High Price"], data["Low Price"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
answer(f"{r:.2f}")
answer(f"{p:.4f}")
answer(kind)

# %% 14
spread = data["High Price"] - data["Low Price"]
answer(f"{spread.mean():.2f}")
answer(f"{spread.median():.2f}")
answer(f"{spread.std():.2f}")

# %% 27
charges = data["charges"]
low, high = charges.quantile([0.25, 0.75])
outliers = charges[~charges.between(low - 1.5 * (high - low), high + 1.5 * (high - low))]
answer(len(outliers))
answer(f"{outliers.mean():.2f}")
answer(f"{outliers.median():.2f}")

# %% 34
from scipy.stats import pearsonr

both = data[["row retention time", "importance.score"]].dropna()
r, p = pearsonr(both["row retention time"], both["importance.score"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
answer(f"{r:.2f}")
answer(f"{p:.4f}")
answer(kind)

# %% 66
from scipy.stats import pearsonr

r, p = pearsonr(data["wage"], data["exper"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
answer(f"{r:.2f}")
answer(f"{p:.4f}")
answer(kind)

# %% 69
score = data["exper"] * data["looks"]
answer(f"{score.corr(data['wage']):.3f}")

# %% 105
r = data["ApplicantIncome"].corr(data["LoanAmount"])
answer(f"{r:.2f}")

# %% 108
total = data["ApplicantIncome"] + data["CoapplicantIncome"]
answer(f"{total.mean():.2f}")
answer(f"{total.std():.2f}")

# %% 132
from scipy.stats import zscore

answer((abs(zscore(data["Fare"])) > 3).sum())

# %% 140
from scipy.stats import pearsonr

r, p = pearsonr(data["votes_dem"], data["votes_gop"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
answer(f"{r:.3f}")
answer(f"{p:.4f}")
answer(kind)

# %% 175
from scipy.stats import zscore

answer((abs(zscore(data["Age"].dropna())) > 3).sum())

# %% 176
chosen = data[
    (data["Sex"] == "male") & (data["Survived"] == 1) & (data["Fare"] > data["Fare"].mean())
]
answer(f"{chosen['Age'].median():.2f}")

# %% 179
chosen = data[(data["Survived"] == 1) & (data["Pclass"] == 1)]
answer(f"{chosen['Age'].corr(chosen['Fare']):.3f}")

# %% 180
from scipy.stats import zscore

for _, fares in data.groupby("Pclass")["Fare"]:
    answer((abs(zscore(fares)) > 3).sum())

# %% 209
answer(f"{data['neg'].corr(data['pos']):.2f}")

# %% 247
runs = data.groupby("indicator_of_free_agency_eligibility")["number_of_runs"].mean()
answer(f"{runs[1]:.2f}")
answer(f"{runs[0]:.2f}")

# %% 250
less = (data["batting_average"] - data["on_base_percentage"]).dropna()
answer(f"{less.mean():.2f}")
answer(f"{less.std():.2f}")

# %% 254
gdp = data.set_index("country")["gdpPercap_1982"]
low, high = gdp.quantile([0.25, 0.75])
outliers = gdp[~gdp.between(low - 1.5 * (high - low), high + 1.5 * (high - low))]
answer(", ".join(outliers.index))

# %% 277
answer(f"{data['MedInd'].corr(data['LarInd']):.4f}")
