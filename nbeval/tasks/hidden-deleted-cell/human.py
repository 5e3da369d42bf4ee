def deletes(person):
    person.delete("rates")


MEANWHILE = {2: deletes}
