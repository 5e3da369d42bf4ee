def interrupts(person):
    person.interrupt_kernel()


def uploads(person):
    (person.folder / "upload.csv").write_text("a,b\n")


MEANWHILE = {2: interrupts, 3: uploads}
