def enters_a_tunnel(person):
    person.type("notes", " from the train")
    person.disconnect()
    person.type("notes", ", in a tunnel")


def leaves_the_tunnel(person):
    person.connect()


MEANWHILE = {2: enters_a_tunnel, 3: leaves_the_tunnel}
