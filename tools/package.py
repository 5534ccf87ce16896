#!/usr/bin/env python3
"""Packs built programs for people who install them: a tarball, a .deb and a container image for each program, a list of
the packages in them (SBOM), and SHA256SUMS.

package.py OUT ARCH=PROGRAM...

Equal programs and an equal commit give equal bytes: every time is SOURCE_DATE_EPOCH, every owner is root, and names are
sorted. Manual pages and completions come from the program for this machine, so one of the programs must run here.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEB_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
COMPLETIONS = {
    "bash": "share/bash-completion/completions/deltic",
    "zsh": "share/zsh/site-functions/_deltic",
    "fish": "share/fish/vendor_completions.d/deltic.fish",
}
SUMMARY = "synchronise files and trees, and transfer only the changes"
DOCUMENTS = ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "NOTICE"]


def output_of(*command):
    return subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE).stdout


class Tree:
    """Files of a package, by their path, with their mode and bytes."""

    def __init__(self, files=()):
        self.files = dict(files)

    def add(self, path, data, mode=0o644):
        self.files[path] = (mode, data)

    def below(self, prefix):
        return Tree((f"{prefix}/{path}", file) for path, file in self.files.items())

    def tar(self, epoch, dirs=()):
        """The bytes of a tar with all files and their directories. `dirs` are pairs of more directories and modes."""
        modes = dict(dirs)
        for path in self.files:
            for above in list(Path(path).parents)[:-1]:
                modes.setdefault(str(above), 0o755)
        entries = {path: (mode, None) for path, mode in modes.items()} | self.files
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for path, (mode, data) in sorted(entries.items()):
                info = tarfile.TarInfo(path)
                info.mode, info.mtime, info.uname, info.gname = mode, epoch, "root", "root"
                if data is None:
                    info.type = tarfile.DIRTYPE
                    tar.addfile(info)
                else:
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        return buffer.getvalue()


def zipped(data):
    return gzip.compress(data, mtime=0)


def installed(program, pages):
    """The files of an installation, below a prefix such as /usr."""
    tree = Tree(pages.files)
    tree.add("bin/deltic", program, 0o755)
    for name in DOCUMENTS:
        tree.add(f"share/doc/deltic/{name}", (ROOT / name).read_bytes())
    for path in sorted((ROOT / "LICENSES").iterdir()):
        tree.add(f"share/doc/deltic/LICENSES/{path.name}", path.read_bytes())
    for path in sorted((ROOT / "packaging/systemd").iterdir()):
        tree.add(f"lib/systemd/system/{path.name}", path.read_bytes())
    return tree


def pages_of(program):
    """Manual pages and completions, below a prefix."""
    tree = Tree()
    with tempfile.TemporaryDirectory() as dir:
        output_of(program, "man", "--dir", dir)
        for page in sorted(Path(dir).iterdir()):
            tree.add(f"share/man/man1/{page.name}.gz", zipped(page.read_bytes()))
    for shell, path in COMPLETIONS.items():
        tree.add(path, output_of(program, "completions", shell))
    return tree


def archive(members, epoch):
    """The bytes of an `ar` archive, the form of a .deb."""
    parts = [b"!<arch>\n"]
    for name, data in members:
        head = f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
        parts += [head.encode(), data, b"\n" * (len(data) % 2)]
    return b"".join(parts)


def deb(tree, arch, version, epoch):
    tree = tree.below("usr")
    tree.add("usr/share/doc/deltic/copyright", (ROOT / "NOTICE").read_bytes() + b"\n" + (ROOT / "LICENSE-MIT").read_bytes())
    kib = sum(len(data) for _, data in tree.files.values()) // 1024
    control = f"""Package: deltic
Version: {version}-1
Architecture: {DEB_ARCH[arch]}
Maintainer: The Deltic developers <deltic@example.org>
Installed-Size: {kib}
Section: net
Priority: optional
Recommends: openssh-client
Description: {SUMMARY}
 Deltic takes the options of rsync and runs over ssh, or serves directories
 itself.
"""
    sums = "".join(
        f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}  {path}\n"
        for path, (_, data) in sorted(tree.files.items())
    )
    about = Tree()
    about.add("control", control.encode())
    about.add("md5sums", sums.encode())
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", zipped(about.tar(epoch))),
        ("data.tar.gz", zipped(tree.tar(epoch))),
    ]
    return archive(members, epoch)


def image(tree, arch, version, epoch):
    """The bytes of a container image as a tar: an OCI layout, with the list that `docker load` reads."""
    rooted = tree.below("usr")
    rooted.add("etc/passwd", b"root:x:0:0:root:/root:/sbin/nologin\n")
    rooted.add("etc/group", b"root:x:0:\n")
    layer = rooted.tar(epoch, [("tmp", 0o1777), ("root", 0o700)])
    packed = zipped(layer)
    created = subprocess.run(
        ["date", "-u", "-d", f"@{epoch}", "+%Y-%m-%dT%H:%M:%SZ"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    blobs = Tree()

    def blob(kind, data):
        digest = hashlib.sha256(data).hexdigest()
        blobs.add(f"blobs/sha256/{digest}", data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    def text(value):
        return json.dumps(value, sort_keys=True).encode()

    config = blob("config.v1+json", text({
        "architecture": DEB_ARCH[arch],
        "os": "linux",
        "created": created,
        "config": {"Entrypoint": ["/usr/bin/deltic"], "Env": ["PATH=/usr/bin", "HOME=/root"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": created, "created_by": "tools/package.py"}],
    }))
    layers = [blob("layer.v1.tar+gzip", packed)]
    manifest = blob("manifest.v1+json", text({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": layers,
    }))
    name = f"deltic:{version}"
    manifest["annotations"] = {"org.opencontainers.image.ref.name": version}
    blobs.add("oci-layout", text({"imageLayoutVersion": "1.0.0"}))
    blobs.add("index.json", text({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    }))
    path = lambda part: "blobs/" + part["digest"].replace(":", "/")
    blobs.add("manifest.json", text([
        {"Config": path(config), "RepoTags": [name], "Layers": [path(layer) for layer in layers]}
    ]))
    return blobs.tar(epoch)


def materials(archs, version, commit, created):
    """The packages that are linked into the programs, in the form of CycloneDX 1.5."""
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    for arch in archs:
        command += ["--filter-platform", f"{arch}-unknown-linux-musl"]
    data = json.loads(output_of(*command))
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    top = next(id for id, package in packages.items() if package["name"] == "deltic-cli")

    def linked(id):
        """Dependencies of the built program: without those for builds and tests alone."""
        return sorted(
            dep["pkg"] for dep in nodes[id]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])
        )

    found, left = set(), [top]
    while left:
        id = left.pop()
        if id not in found:
            found.add(id)
            left += linked(id)
    sums = locked_sums()

    def url(id):
        return f"pkg:cargo/{packages[id]['name']}@{packages[id]['version']}"

    def component(id):
        package = packages[id]
        part = {"type": "library", "bom-ref": url(id), "name": package["name"], "version": package["version"], "purl": url(id)}
        if package.get("license"):
            part["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if sum := sums.get((package["name"], package["version"])):
            part["hashes"] = [{"alg": "SHA-256", "content": sum}]
        return part

    parts = sorted((component(id) for id in found if id != top), key=lambda part: part["bom-ref"])
    uses = sorted(({"ref": url(id), "dependsOn": sorted(map(url, linked(id)))} for id in found), key=lambda use: use["ref"])
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, commit)}",
        "version": 1,
        "metadata": {"timestamp": created, "component": component(top) | {"type": "application", "name": "deltic", "version": version}},
        "components": parts,
        "dependencies": uses,
    }
    return json.dumps(bom, indent=1, sort_keys=True).encode() + b"\n"


def locked_sums():
    """SHA-256 sums of packages, from Cargo.lock."""
    import tomllib

    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("programs", nargs="+", metavar="ARCH=PROGRAM")
    args = parser.parse_args()
    programs = dict(word.split("=", 1) for word in args.programs)
    here = programs.get(platform.machine())
    if here is None or not programs.keys() <= DEB_ARCH.keys():
        sys.exit(f"package.py: give {platform.machine()}=PROGRAM, whose manual pages are packed, of {' '.join(DEB_ARCH)}")
    commit = output_of("git", "rev-parse", "HEAD").decode().strip()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or output_of("git", "log", "-1", "--format=%ct"))
    created = output_of("date", "-u", "-d", f"@{epoch}", "+%Y-%m-%dT%H:%M:%SZ").decode().strip()
    version = output_of(os.path.abspath(here), "--version").decode().split()[1]
    pages = pages_of(os.path.abspath(here))
    files = {f"deltic-{version}.cdx.json": materials(programs, version, commit, created)}
    for arch, program in sorted(programs.items()):
        tree = installed(Path(program).read_bytes(), pages)
        name = f"deltic-{version}-{arch}-linux"
        files[f"{name}.tar.gz"] = zipped(tree.below(name).tar(epoch))
        files[f"deltic_{version}-1_{DEB_ARCH[arch]}.deb"] = deb(tree, arch, version, epoch)
        files[f"deltic-{version}-{arch}-image.tar"] = image(tree, arch, version, epoch)
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    files["SHA256SUMS"] = sums.encode()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (args.out / name).write_bytes(data)


if __name__ == "__main__":
    main()
