def splits(person):
    person.split("load", "readings =")


def merges(person):
    person.merge("load", "show")


MEANWHILE = {2: splits, 5: merges}
