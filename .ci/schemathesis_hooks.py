"""Values for schemathesis that lead somewhere: names of what is there, bodies that say something,
streams that end; and a list of the operations that never had what they need.
"""

import atexit
import json
import os
import re
import sys
import urllib.request
from collections import defaultdict
from itertools import count
from random import Random
from threading import Thread
from time import sleep

import schemathesis

API = os.environ["AGENT_API"]
NOTEBOOKS = ("one.ipynb", "two.ipynb", "three.ipynb")
number = count()
chance = Random(20)
done = defaultdict(int)


def ask(method, path, body=None):
    """The answer of the server, as JSON."""
    request = urllib.request.Request(
        f"{API}/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": "token secret", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        text = response.read()
    return json.loads(text) if text else None


def talk(text="```python\n1 + 1\n```", *, mode="auto", notebook="one.ipynb"):
    """A turn of the scripted model, which runs the code that it is given."""
    body = {"mode": mode, "stream": False, "notebook": notebook}
    return ask("POST", "chat", {**body, "messages": [{"role": "user", "content": text}]})


def running():
    """The id of a run that a turn has started and that has not ended."""
    code = f"```python\nimport time; time.sleep(2)  # {next(number)}\n```"
    # In a notebook of its own: nobody is to wait for all of these cells.
    Thread(target=talk, args=[code], kwargs={"notebook": "slow.ipynb"}, daemon=True).start()
    while True:
        for run in ask("GET", "runs?state=active")["runs"]:
            if run.get("turn_id") and run["status"] == "running":
                return run["run_id"]


def seed():
    """What there is before the first request."""
    known = defaultdict(list, {"path": NOTEBOOKS, "cell_id": ("a1", "b2", "c3")})
    for name in NOTEBOOKS:
        added = ask("POST", f"notebooks/{name}/cells?by=Script", {"source": "2"})
        known["turn_id"].append(added["turn_id"])
        ask("POST", f"notebooks/{name}/run", {})
        run = ask("POST", f"notebooks/{name}/kernel/code", {"code": "1"})
        known["run_id"].append(run["run_id"])
    for _ in range(4):
        turn = talk("Hello")
        known["turn_id"].append(turn["turn_id"])
        known["conversation_id"].append(turn["conversation_id"])
    for copy in ask("GET", "notebooks/one.ipynb/recovery")["copies"]:
        known["copy_id"].append(str(copy["id"]))
    known["instructions"] = ask("GET", "instructions")["instructions"]
    known["provider"] = ("anthropic", "demo")
    known["name"] = ("get_notebook_state", "list_files", "read_cells", "create_cell")
    return known


KNOWN = seed()


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Three of four requests name what is there, or a notebook that can be made."""
    operation = context.operation
    if path_parameters and fit(operation, path_parameters) and chance.random() < 0.75:
        if (operation.method, operation.path) == ("post", "/notebooks/{path}"):
            return {"path": f"made-{next(number)}.ipynb"}
        if operation.path.endswith("/key"):
            return {"provider": "anthropic"}  # the demo has none
        if "copy_id" in path_parameters:
            return {"path": "one.ipynb", "copy_id": KNOWN["copy_id"][0]}
        for name in path_parameters:
            if values := KNOWN.get(name):
                path_parameters[name] = chance.choice(values)
    return path_parameters


def fit(operation, path_parameters):
    """Whether these are not made to be refused."""
    patterns = {
        parameter["name"]: parameter["schema"].get("pattern", "")
        for parameter in operation.definition.raw["parameters"]
        if parameter["in"] == "path"
    }
    return all(re.search(patterns[name], str(value)) for name, value in path_parameters.items())


@schemathesis.hook
def map_query(context, query):
    """The events of a notebook end soon."""
    if context.operation.path.endswith("/events"):
        return {**(query or {}), "seconds": 1}
    return query


@schemathesis.hook
def before_call(context, case, kwargs):
    """Every other request with a valid body has one that says something."""
    meta = case.meta
    if meta is None or meta.generation.mode.is_negative:
        return
    if case.operation.path.endswith("/wake") and chance.random() < 0.5:
        case.path_parameters = {"run_id": running()}
    if not isinstance(case.body, dict):
        return
    if chance.random() < 0.5:
        case.body = sensible(case.operation.path, case.body)
        if case.operation.path == "/chat/{conversation_id}/approvals":
            asked = talk(mode="ask")
            case.path_parameters = {"conversation_id": asked["conversation_id"]}
            answers = [{"id": each["id"], "approved": False} for each in asked["approvals"]]
            case.body = {"approvals": answers}


def sensible(path, body):
    """What such a body may be, for routes to which few texts are useful."""
    if path == "/chat":
        return {**body, "messages": [{"role": "user", "content": "Hello"}], "model": "demo:tour"}
    if path == "/instructions":
        (file,) = KNOWN["instructions"]
        return {"source": file["source"], "digest": file["digest"], "trusted": True}
    if path == "/mcp":
        return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    if path.endswith("/cells/{cell_id}"):
        return {"source": f"x = {next(number)}"}
    if path.endswith("/edits"):
        return {"edits": [{"op": "insert", "source": f"x = {next(number)}"}]}
    if path.endswith("/key"):
        return {"key": "sk-test"}
    return {} if path.endswith(("/accept", "/undo")) else body


@schemathesis.hook
def after_call(context, case, response):
    """Notes what was done."""
    if case.method.upper() == case.operation.method.upper():
        done[f"{case.operation.method.upper()} {case.operation.path}"] += response.status_code < 400


@atexit.register
def tell():
    while ask("GET", "runs?state=active")["runs"]:  # a kernel that is killed leaves a traceback
        sleep(0.1)
    never = sorted(name for name, times in done.items() if not times)
    sys.stdout.write(f"{len(done) - len(never)} of {len(done)} operations did what they are for.\n")
    if never:
        sys.stdout.write(f"Only refused: {', '.join(never)}.\n")
