def starts(person):
    person.type("notes", " ask Jonas")


def goes_on(person):
    person.type("notes", " about the units")


MEANWHILE = {2: starts, 3: goes_on}
