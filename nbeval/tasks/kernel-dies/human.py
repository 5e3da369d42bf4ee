def runs_out_of_memory(person):
    person.lose_kernel()


MEANWHILE = {2: runs_out_of_memory}
