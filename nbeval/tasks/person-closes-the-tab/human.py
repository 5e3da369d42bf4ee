def leaves(person):
    person.type("notes", ", pump off")
    person.save()
    person.close()


MEANWHILE = {2: leaves}
