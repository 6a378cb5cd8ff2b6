"""What goes into a build is named by its content, not by a tag; what comes out is listed and says where it is from."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from braid.errors import needs_extra
from braid.settings.configuration_files import load_profiles
from braid.version import __version__

from braid_cli.local_servers import localstack_server

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
BY_DIGEST = re.compile(r"\S+:\S+@sha256:[0-9a-f]{64}")
BY_TAG = {"tinkerpop/gremlin-server:3.7.3"}
"""Whose digest nobody could look up: a server for tests on loopback, of which no image of ours is made."""

NAME = r"(?:braid|braid[-_.]retrieval)"
INSTALLED = re.compile(
    r"\b(?:pip3?|pipx|uv|uvx|poetry|pdm|conda)\b(?: tool| pip)? (?:install|add|run)(?: +[^\s`;&|]+)*? +['\"]?"
    rf"{NAME}(?:\[[\w, ]+\])?(?:[=<>~!]=?[\w.*]+)?['\"]?(?=[\s`;&|.,)]|\\n|$)(?! *@)"
)
"""An installer's command with the bare name among its arguments."""
WITH_EXTRA = re.compile(
    rf"(?<![\w./-]){NAME}\[(?:aws|documents|export|langchain|llamaindex|mcp|otel|workflow)[\w, ]*\](?! *@)"
)
NO_ADVICE = {"tests/unit/deployment/test_supply_chain.py"}
"""Which quotes what must not be said."""


def script(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, ROOT / "make" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_image_is_named_by_its_digest() -> None:
    images = re.findall(r"(?m)^FROM\s+(\S+)", read("functions/Dockerfile") + read("Dockerfile"))
    images += [service["image"] for service in yaml.safe_load(read("compose.yaml"))["services"].values()]
    assert len(images) >= 7
    assert {image for image in images if not BY_DIGEST.fullmatch(image)} == BY_TAG


def test_an_image_without_a_digest_is_refused_by_the_build() -> None:
    provenance = script("provenance")
    with pytest.raises(ValueError, match=r"FROM python:3\.13-slim has no digest; make image-digests"):
        provenance.images_of("FROM python:3.13-slim AS models\n")


def test_renewing_digests_changes_them_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renewing = script("image_digests")
    monkeypatch.setattr(renewing, "digest_of", lambda image: f"sha256:{hashlib.sha256(image.encode()).hexdigest()}")
    for name in renewing.FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    renewing.main(tmp_path)
    for name in renewing.FILES:
        without = [re.sub(r"@sha256:[0-9a-f]{64}", "", text) for text in (read(name), (tmp_path / name).read_text())]
        assert without[0] == without[1]
        for found in renewing.IMAGE.finditer((tmp_path / name).read_text()):
            assert found[3] == f"@sha256:{hashlib.sha256(found[2].encode()).hexdigest()}"


def test_every_tool_is_installed_by_hashes_at_the_version_that_the_makefile_names() -> None:
    (named,) = re.findall(r"(?m)^TOOLS := (.+)$", read("Makefile"))
    (localstack,) = re.findall(r"(?m)^LOCALSTACK := (.+)$", read("Makefile"))
    assert localstack.endswith(f"=={localstack_server.VERSION}")
    for tool in (*named.split(), localstack.replace("[runtime]", "")):
        name, _, version = tool.partition("==")
        lock = read(f"make/tools/{name}.txt")
        assert f"\n{name}=={version} \\\n" in f"\n{lock}"
        for requirement in re.split(r"(?m)^(?=[a-z0-9])", lock)[1:]:
            assert "--hash=sha256:" in requirement, requirement.splitlines()[0]
    packages = json.loads(read("make/tools/asl-validator/package-lock.json"))["packages"]
    assert all(package["integrity"].startswith("sha512-") for name, package in packages.items() if name)


def test_nothing_is_installed_without_hashes() -> None:
    assert '"--require-hashes", "--requirement"' in read("braid_cli/local_servers/localstack_server.py")
    for name in ("Makefile", "make/deploy.mk", "make/engines.mk", "Dockerfile", "functions/Dockerfile", ".ci/run"):
        text = read(name).replace("\\\n", " ")
        for line in re.findall(r"(?m)^.*\bpip install\b.*$", text):
            assert "--require-hashes" in line, f"{name}: {line}"
        assert not re.search(r"\buv\) tool run|\buvx\b|\bnpx\b|curl [^|]*\| *(ba)?sh", text), name


def test_what_builds_this_package_is_taken_from_the_lock() -> None:
    project = tomllib.loads(read("pyproject.toml"))
    assert project["tool"]["uv"]["no-build-isolation-package"] == [
        project["project"]["name"]
    ]  # else uv would fetch it anew, by no hash
    (backend,) = project["build-system"]["requires"]
    assert backend in project["dependency-groups"]["clone"]
    (locked,) = re.findall(r'(?ms)^name = "hatchling"$.*?(?=^\[\[package)', read("uv.lock"))
    assert 'hash = "sha256:' in locked


def advice(text: str) -> list[str]:
    """Return what would have an index looked up: Braid's name, or `braid`, to be installed or with an extra."""
    plain = re.sub(r"\"\s*\n\s*f?\"|\\\n", "", text)  # a message, or a command, may go on in the next line
    plain = re.sub(r"(?<=\binstall)\s*\n\W*", " ", plain)
    return [match[0] for match in (*INSTALLED.finditer(plain), *WITH_EXTRA.finditer(plain))]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("pip install braid", True),
        ("`pip install -U 'braid'`", True),
        ("%pip install --quiet 'braid[mcp]'", True),
        ("install braid[documents]", True),
        ("pip install numpy braid-retrieval==0.1.0", True),
        ("uv add braid_retrieval", True),
        ("uv tool install 'braid-retrieval[otel]>=0.1'", True),
        ("pipx run braid-retrieval", True),
        ('"pip install "\n    f"\'braid[otel]\'"', True),
        ("# pip install\n# braid", True),
        ("pip install -U \\\n  braid", True),
        ("pip install dist/braid_retrieval-*.whl", False),
        ("pip install 'dist/braid_retrieval-0.1.0-py3-none-any.whl[otel]'", False),
        ("pip install 'braid-retrieval[otel] @ file:///tmp/braid_retrieval-0.1.0-py3-none-any.whl'", False),
        ("pip install '/path/to/braid[mcp]'", False),
        ("pip install -r requirements.txt; braid demo", False),
        ("pip uninstall braid", False),
        ("pip install x.whl\nbraid serve", False),
        ("`pip install X` brings what braid serves", False),
    ],
)
def test_an_advice_that_names_no_file_would_be_told(text: str, wrong: bool) -> None:
    assert bool(advice(text)) is wrong


def test_nobody_is_told_to_install_braid_from_an_index() -> None:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607 - git
    files = [name for name in done.stdout.split("\0") if name and name not in NO_ADVICE]
    assert {"README.md", "docs/tutorial.ipynb", "layers/braid/braid/errors.py", "braid_cli/main.py"} <= set(files)
    for name in files:
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if b"\0" not in content:
            assert not advice(content.decode("utf-8", "replace")), name


def test_the_distribution_is_not_called_as_anothers_and_the_documents_say_so() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert (project["name"], list(project["scripts"])) == ("braid-retrieval", ["braid"])
    assert '\nname = "braid-retrieval"\n' in read("uv.lock")
    assert '\nname = "braid"\n' not in read("uv.lock")
    for name in ("README.md", "docs/library.md"):
        assert re.search(
            r"Braid is on no package index yet.{,80}`braid` on PyPI is somebody else's project", read(name)
        )
    said = needs_extra("otel")
    assert said.startswith(f"this needs the extra otel: install Braid's wheel as 'braid_retrieval-{__version__}-py3-")
    assert "\n## Installing\n" in read("docs/library.md")  # to which it points


def test_an_action_of_github_would_be_named_by_its_commit() -> None:
    for workflow in (ROOT / ".github").rglob("*.y*ml"):
        for used in re.findall(r"uses:\s*(\S+)", workflow.read_text(encoding="utf-8")):
            assert re.search(r"@[0-9a-f]{40}$", used) or used.startswith("./"), f"{workflow}: {used}"


def test_weights_from_the_hub_are_of_one_commit() -> None:
    assert all(model.revision for model in load_profiles(ROOT / "shared").models)
    dockerfile = read("functions/Dockerfile")
    assert re.search(r"(?m)^ARG RERANKER_REVISION=[0-9a-f]{40}$", dockerfile)
    assert '--revision "${RERANKER_REVISION}"' in dockerfile


@pytest.fixture
def built(tmp_path: Path) -> Path:
    for name, text in (("a/app.py", "a"), ("a/lib/x.py", "x"), ("b/app.py", "b")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def said_of(built: Path) -> dict[str, Any]:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    said: dict[str, Any] = script("provenance").statement(
        built, ROOT, boms=[built / "b" / "app.py"], now=moment, builder="urn:x"
    )
    return said


def test_a_builds_provenance_names_artifacts_commit_locks_and_images_by_their_digests(built: Path) -> None:
    said = said_of(built)
    lines = "".join(
        f"{hashlib.sha256((built / 'a' / name).read_bytes()).hexdigest()}  {name}\n" for name in ("app.py", "lib/x.py")
    )
    assert said["subject"][0] == {"name": "a", "digest": {"sha256": hashlib.sha256(lines.encode()).hexdigest()}}
    assert [subject["name"] for subject in said["subject"]] == ["a", "b"]
    taken = said["predicate"]["buildDefinition"]["resolvedDependencies"]
    materials = {material["uri"]: material["digest"] for material in taken}
    assert re.fullmatch(r"[0-9a-f]{40}", materials["git+file:."]["gitCommit"])
    assert materials["file:uv.lock"]["sha256"] == hashlib.sha256((ROOT / "uv.lock").read_bytes()).hexdigest()
    assert "docker://public.ecr.aws/lambda/python:3.13" in materials
    assert said["predicate"]["runDetails"]["builder"]["id"] == "urn:x"
    assert said["predicate"]["runDetails"]["byproducts"][0]["digest"]["sha256"] == hashlib.sha256(b"b").hexdigest()


def test_a_file_that_git_does_not_know_is_a_change_of_what_is_built(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        subprocess.run(command, check=True, timeout=60)  # noqa: S603 - git, and arguments made here

    (tmp_path / "layers" / "__pycache__").mkdir(parents=True)
    (tmp_path / "layers" / "app.py").write_text("a")
    (tmp_path / ".gitignore").write_text("ignored.py\n__pycache__\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "a")
    changed = script("provenance").commit_of
    (tmp_path / "layers" / "__pycache__" / "app.cpython-313.pyc").write_bytes(b"compiled")
    (tmp_path / "notes.txt").write_text("not built")
    assert changed(tmp_path)[1] is False
    for name in ("new.py", "ignored.py"):
        (tmp_path / "layers" / name).write_text("a")
        assert changed(tmp_path)[1] is True, name
        (tmp_path / "layers" / name).unlink()
    (tmp_path / "layers" / "app.py").write_text("b")
    assert changed(tmp_path)[1] is True


def test_a_changed_file_is_another_artifact_and_a_compiled_one_is_not(built: Path) -> None:
    before = said_of(built)["subject"]
    (built / "a" / "app.pyc").write_bytes(b"compiled")
    assert said_of(built)["subject"] == before
    (built / "a" / "app.py").write_text("changed")
    after = said_of(built)["subject"]
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_the_build_writes_both() -> None:
    deploy = read("make/deploy.mk")
    recipe = deploy.partition("\nbuild:")[2].partition("\n\n")[0]
    assert "$(MAKE) sbom" in recipe
    assert "make/provenance.py $(BUILT) dist/provenance.json" in recipe
    assert re.search(r"(?m)^step make .*\bbuild\b", read(".ci/run"))


def test_the_bills_of_materials_list_what_the_lock_installs(tmp_path: Path) -> None:
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    export = re.search(r"(?m)^SBOM = \$\(UV\) (export .+)$", read("make/deploy.mk"))
    assert export is not None
    out = tmp_path / "image.json"
    command = [uv, *export[1].split(), "--offline", "--only-group", "image", "--output-file", str(out)]
    environment = {**os.environ, "UV_PYTHON": sys.executable}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)  # noqa: S603 - the project's uv
    bill = json.loads(out.read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    listed = {component["purl"] for component in bill["components"] if "purl" in component}
    wanted = set(re.findall(r"(?m)^([a-z0-9-]+==[^ ;]+)", read("functions/requirements.txt")))
    assert {f"pkg:pypi/{requirement.replace('==', '@')}" for requirement in wanted} <= listed


def test_signatures_of_code_are_checked_where_a_profile_is_named_and_not_else() -> None:
    template = read("template.yaml")
    assert re.search(r'SigningProfileVersionArns:\n    Type: CommaDelimitedList\n    Default: ""', template)
    config = template.partition("\n  CodeSigning:\n")[2].partition("\n\n")[0]
    assert "Condition: SignsCode" in config
    assert "UntrustedArtifactOnDeployment: Enforce" in config
    signed = template.count("CodeSigningConfigArn: !If [SignsCode, !Ref CodeSigning, !Ref AWS::NoValue]")
    assert signed == len(re.findall(r"(?m)^\s+CodeUri: functions/", template))
