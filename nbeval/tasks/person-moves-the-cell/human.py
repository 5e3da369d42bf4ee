def moves(person):
    person.move_up("heading")


MEANWHILE = {2: moves}
