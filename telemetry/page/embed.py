#!/usr/bin/env python3
"""Makes a C++ source of the live page's files: embed.py OUTPUT PATH=FILE...

PATH is what a browser asks for. Each file is compressed; equal files give equal sources.
"""
import gzip
import hashlib
import sys
from pathlib import Path

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
LINE = 32


def rows(data: bytes) -> str:
    return "\n".join("    " + ",".join(str(byte) for byte in data[at : at + LINE]) + "," for at in range(0, len(data), LINE))


def main() -> None:
    arrays, entries = [], []
    for index, argument in enumerate(sys.argv[2:]):
        path, name = argument.split("=", 1)
        content = Path(name).read_bytes()
        packed = gzip.compress(content, 9, mtime=0)
        content_type = TYPES[".html" if path == "/" else Path(path).suffix]
        tag = hashlib.sha256(content).hexdigest()[:16]
        arrays.append(f"constexpr unsigned char kFile{index}[] = {{\n{rows(packed)}\n}};")
        entries.append(
            f'    {{"{path}", "{content_type}", "\\"{tag}\\"", {{reinterpret_cast<const char*>(kFile{index}), '
            f"sizeof(kFile{index})}}}},"
        )
    text = '#include "telemetry/page_assets.h"\n\nnamespace cw::telemetry {\nnamespace {\n\n' + "\n".join(arrays)
    text += "\n\nconst PageAsset kAssets[] = {\n" + "\n".join(entries)
    text += "\n};\n\n}  // namespace\n\nstd::span<const PageAsset> page_assets() {\n  return kAssets;\n}\n\n"
    text += "}  // namespace cw::telemetry\n"
    Path(sys.argv[1]).write_text(text, encoding="utf-8")


main()
