def deletes(person):
    person.delete("typo")


MEANWHILE = {2: deletes}
