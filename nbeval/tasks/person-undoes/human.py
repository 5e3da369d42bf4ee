def types(person):
    person.type("settings", " + 40")


def thinks_better_of_it(person):
    person.undo()
    person.type("settings", "\nheight = 3")


MEANWHILE = {2: types, 3: thinks_better_of_it}
