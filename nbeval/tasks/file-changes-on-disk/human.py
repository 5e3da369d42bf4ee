import nbformat


def pulls(person):
    person.type("notes", ", unsaved")
    file = person.folder / person.notebook
    book = nbformat.read(file, as_version=4)
    book.cells[1].source = book.cells[1].source.replace("depth = 3", "depth = 4")
    book.cells.append(nbformat.v4.new_markdown_cell("From a colleague", id="fetched"))
    nbformat.write(book, file)


MEANWHILE = {2: pulls}
