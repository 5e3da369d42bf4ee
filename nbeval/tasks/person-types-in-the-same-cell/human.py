def types(person):
    person.type("stat", "  # checked by Mara")


MEANWHILE = {2: types}
