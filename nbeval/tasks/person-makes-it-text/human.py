def makes_it_text(person):
    person.make_text("draft")


MEANWHILE = {2: makes_it_text}
