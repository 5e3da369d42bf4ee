def restarts(person):
    person.restart_kernel()


MEANWHILE = {2: restarts}
