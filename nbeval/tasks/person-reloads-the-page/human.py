def reloads(person):
    person.type("text", ", mine")
    person.save()
    person.reload()


MEANWHILE = {2: reloads}
