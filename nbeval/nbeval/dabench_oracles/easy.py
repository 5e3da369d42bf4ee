"""Our own answers to easy questions of DABench: a cell each, after `# %%` and its number.

They run in the notebook of the task, where `pd` is pandas and `data` the table; `answer` is given
the values in the order in which the question wants them.
"""
# ruff: noqa: F821
# mypy: ignore-errors

# %% 0
answer(f"{data['Fare'].mean():.2f}")

# %% 9
answer(f"{data['Close Price'].mean():.2f}")

# %% 24
answer(f"{data['age'].dropna().mean():.2f}")

# %% 26
r = data["charges"].corr(data["children"])
answer(f"{r:.2f}")

# %% 55
cases = data["No. of cases"].str.extract(r"^(\d+)")[0].astype("Int64")
answer(round(cases.mean()))

# %% 56
deaths = data["No. of deaths"].str.extract(r"^(\d+)")[0].astype("Int64")
worst = data.loc[deaths.idxmax()]
answer(worst["Country"])
answer(int(worst["Year"]))

# %% 57
cases = data["No. of cases"].str.extract(r"^(\d+)")[0].astype(float)
deaths = data["No. of deaths"].str.extract(r"^(\d+)")[0].astype(float)
answer(f"{cases.corr(deaths):.2f}")

# %% 58
missing = data.isna().mean() * 100
answer(f"{missing['No. of cases_min']:.2f}")
answer(f"{missing['No. of deaths_max']:.2f}")

# %% 64
answer(f"{data['wage'].mean():.2f}")
answer(f"{data['wage'].std():.2f}")

# %% 71
answer(f"{data['Volume'].mean():.2f}")
answer(f"{data['Volume'].std():.2f}")

# %% 114
happiest = data[data["Happiness Score"] == data["Happiness Score"].max()]
answer(", ".join(happiest["Country"]))

# %% 174
answer(f"{data['Fare'].skew():.2f}")

# %% 208
answer(f"{data['compound'].mean():.3f}")
answer(f"{data['compound'].std():.3f}")

# %% 216
answer(f"{data['abs_diffsel'].mean():.2f}")
answer(f"{data['abs_diffsel'].std():.2f}")

# %% 217
highest = data["positive_diffsel"] == data["positive_diffsel"].max()
answer(",".join(data.loc[highest, "site"]))

# %% 218
r = data["positive_diffsel"].corr(data["negative_diffsel"])
answer(f"{r:.2f}")

# %% 243
answer(f"{data['batting_average'].mean():.3f}")

# %% 255
answer(f"{data['gdpPercap_2007'].mean():.2f}")
answer(f"{data['gdpPercap_2007'].std():.2f}")

# %% 409
answer(data["Cabin"].isna().sum())

# %% 446
answer(f"{data[' WINDSPEED'].mean():.3f}")
