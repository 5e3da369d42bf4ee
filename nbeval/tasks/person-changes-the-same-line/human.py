def remarks(person):
    person.type("rows", "  # as agreed with Mara", after="limit = 10")


MEANWHILE = {2: remarks}
