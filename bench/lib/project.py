"""A project on disk whose primary agent has plugins, and a session in it."""
import os


def write_project(root, names):
    os.makedirs(f"{root}/.kaged")
    with open(f"{root}/.kaged/project.yaml", "w") as file:
        file.write("version: 1\nname: bench\nprimary:\n  plugins:\n")
        file.writelines(f"    {name}: {{package: {name}}}\n" for name in names)


def begin_session(client):
    """The id of a session that was started."""
    session = client.api("POST", "/projects/bench/sessions", {})["id"]
    client.api("POST", f"/sessions/{session}/messages",
               {"messages": [{"role": "user", "content": "hello"}]})
    return session
