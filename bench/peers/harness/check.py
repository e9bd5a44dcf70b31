"""What can be known to be wrong without installing or running an engine: for CI."""
import ast
import json
import re
import shutil
import subprocess
import sys

from .engine import FOLDERS
from .install import PEERS

LONGEST = 160
SHAPES = {"single", "bulk"}
STORES = {"postgres", "redis"}


def main(engines):
    found = [*scripts(), *folders(), *descriptions(engines)]
    for complaint in found:
        print(f"bench/peers/{complaint}", file=sys.stderr)
    print(f"{len(engines)} engines in {len(FOLDERS)} folders: {len(found) or 'no'} complaints")
    return 1 if found else 0


def scripts():
    """Every script parses and is short enough to be read."""
    node = shutil.which("node")
    for path in sorted(path for path in PEERS.rglob("*") if path.suffix in (".py", ".mjs") or path.name == "run"):
        name, text = path.relative_to(PEERS), path.read_text()
        if text.count("\n") > LONGEST:
            yield f"{name}: {text.count(chr(10))} lines, more than {LONGEST}"
        if path.suffix != ".mjs":
            try:
                ast.parse(text, str(name))
            except SyntaxError as error:
                yield f"{name}: {error}"
        elif node:
            said = subprocess.run([node, "--check", path], capture_output=True, text=True)
            if said.returncode:
                yield f"{name}: {said.stderr.strip().splitlines()[-1]}"


def folders():
    """Every folder is a peer that is run, explained, and pinned to exact versions."""
    page = (PEERS / "README.md").read_text()
    for path in sorted(PEERS.iterdir()):
        if path.is_dir() and path.name not in ("harness", "probe", *FOLDERS) and not path.name.startswith("__"):
            yield f"{path.name}: not in harness/engine.py, so it is never run"
    for folder in FOLDERS:
        if folder not in page:
            yield f"{folder}: README.md does not mention it"
        manifest, requirements = PEERS / folder / "package.json", PEERS / folder / "requirements.txt"
        if manifest.exists():
            for package, version in json.loads(manifest.read_text())["dependencies"].items():
                if not re.fullmatch(r"\d+\.\d+\.\d+", version):
                    yield f"{folder}/package.json: {package} {version} is not an exact version"
        if requirements.exists():
            for line in requirements.read_text().split():
                if "==" not in line:
                    yield f"{folder}/requirements.txt: {line} is not an exact version"


def descriptions(engines):
    keys = [engine.key for engine in engines]
    for engine in engines:
        if keys.count(engine.key) > 1:
            yield f"{engine.folder}: the key {engine.key} is there twice"
        if not (engine.name and engine.variant and engine.durability and engine.client):
            yield f"{engine.folder}: {engine.key} does not say its name, variant, durability and client"
        if not set(engine.shapes) <= SHAPES or not set(engine.stores) <= STORES:
            yield f"{engine.folder}: {engine.key} has shapes or stores that do not exist"
