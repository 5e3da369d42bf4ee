def sets_another_rate(person):
    person.type("rate", ".5")
    person.run("rate")


MEANWHILE = {2: sets_another_rate}
