"""Adds the Go program that filters to the wheel, compiled for GOOS and GOARCH or for this machine.

It adds the program's source to the sdist, from which a wheel can be built with Go.
"""

import json
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# The address of the repository. The links of the package and of its README begin with it; without it they are left out.
REPOSITORY = ""

# The program needs no libc, so one wheel per architecture runs on all Linux systems.
TAGS = {
    ("linux", "amd64"): "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    ("linux", "arm64"): "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    ("darwin", "amd64"): "macosx_12_0_x86_64",
    ("darwin", "arm64"): "macosx_12_0_arm64",
    ("windows", "amd64"): "win_amd64",
}
ARCHITECTURES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class Metadata(MetadataHookInterface):  # type: ignore[misc]
    """Sets the links, and the README with links to the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets readme and urls."""
        text = Path(self.root, "README.md").read_text()
        folder = REPOSITORY and REPOSITORY + "/blob/main/connectors/python/"
        link = r"[\1](" + folder + r"\2)" if folder else r"\1"
        text = re.sub(r"\[([^]]+)\]\((?!https?:|#)([^)]+)\)", link, text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {"Repository": REPOSITORY, "Issues": REPOSITORY + "/issues"} if REPOSITORY else {}


class Hook(BuildHookInterface):  # type: ignore[misc]
    """Compiles cmd/hafvf-serve of the repository that contains this folder, or of the sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the program to the package, and the platform to the wheel's name."""
        root = Path(self.root, "go")
        if not root.exists():
            root = Path(self.root).parents[1]
        if self.target_name == "sdist":
            build_data["force_include"].update(self._source(root))
            return
        goos = os.environ.get("GOOS") or platform.system().lower()
        goarch = os.environ.get("GOARCH") or ARCHITECTURES.get(platform.machine(), platform.machine())
        if (goos, goarch) not in TAGS:
            raise SystemExit(f"hafvf has no wheel for {goos}/{goarch}: use one of {', '.join(map('/'.join, TAGS))}")
        folder = Path(self.root, "src", "hafvf", "bin")
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        program = folder / ("hafvf-serve.exe" if goos == "windows" else "hafvf-serve")
        env = {**os.environ, "CGO_ENABLED": "0", "GOOS": goos, "GOARCH": goarch, "GOFLAGS": ""}
        command = [
            "go",
            "build",
            "-trimpath",
            "-buildvcs=false",
            f"-ldflags=-s -w -X main.version={self.metadata.version}",
            "-o",
            str(program),
            "./cmd/hafvf-serve",
        ]
        try:
            subprocess.run(command, cwd=root, env=env, check=True)
        except FileNotFoundError:
            raise SystemExit(f"hafvf needs Go, which is not installed: install Go {self._needs(root)} or later") from None
        except subprocess.CalledProcessError:
            raise SystemExit(f"Go could not compile hafvf (see above): hafvf needs Go {self._needs(root)} or later") from None
        folder.joinpath("NOTICE").write_text(self._notice(root))
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + TAGS[goos, goarch]

    @staticmethod
    def _source(root: Path) -> dict[str, str]:
        """Returns the files from which the program is compiled, with their places in the sdist."""
        listed = subprocess.run(
            ["go", "list", "-deps", "-json=Dir,Module,GoFiles,IgnoredGoFiles,SFiles,EmbedFiles", "./cmd/hafvf-serve"],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        )
        files = [root / "go.mod", root / "go.sum"]
        decoder, text = json.JSONDecoder(), listed.stdout.strip()
        while text:
            package, end = decoder.raw_decode(text)
            text = text[end:].lstrip()
            if package.get("Module", {}).get("Main"):
                kinds = ("GoFiles", "IgnoredGoFiles", "SFiles", "EmbedFiles")
                files += [Path(package["Dir"], name) for kind in kinds for name in package.get(kind) or []]
        return {str(f): str(Path("go") / f.relative_to(root)) for f in files}

    @staticmethod
    def _notice(root: Path) -> str:
        """Returns the names and licences of the modules and of Go, which are linked into the program."""
        form = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"
        listed = subprocess.run(
            ["go", "list", "-deps", "-f", form, "./cmd/hafvf-serve"], cwd=root, check=True, capture_output=True, text=True
        )
        goroot = subprocess.run(["go", "env", "GOROOT"], check=True, capture_output=True, text=True).stdout.strip()
        parts = []
        for line in [*sorted(set(filter(None, listed.stdout.splitlines()))), "Go\t" + goroot]:
            name, folder = line.split("\t")
            texts = [p.read_text() for p in sorted(Path(folder).glob("LICENSE*"))]
            parts.append("\n\n".join([name, *(texts or ["see the module's repository for its licence"])]))
        return "hafvf-serve contains these parts.\n\n" + "\n\n----\n\n".join(parts)

    @staticmethod
    def _needs(root: Path) -> str:
        found = re.search(r"^go (\S+)", (root / "go.mod").read_text(), re.MULTILINE)
        return found[1] if found else ""
