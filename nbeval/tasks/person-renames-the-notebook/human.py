def renames(person):
    person.type("notes", ", by Mara")
    person.rename("Städte 2025.ipynb")


MEANWHILE = {2: renames}
