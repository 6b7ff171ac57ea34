#!/usr/bin/env python3
"""Makes a C++ source of the compiled XDP program: embed.py OBJECT OUTPUT."""
import sys
from pathlib import Path

LINE = 32


def main() -> None:
    data = Path(sys.argv[1]).read_bytes()
    rows = "\n".join("    " + ",".join(str(byte) for byte in data[at : at + LINE]) + "," for at in range(0, len(data), LINE))
    text = f"""#include "dataplane/xdp/xdp_program.h"

namespace cw::dataplane {{
namespace {{

constexpr uint8_t kObject[] = {{
{rows}
}};

}}  // namespace

Bytes xdp_program() {{
  return kObject;
}}

}}  // namespace cw::dataplane
"""
    Path(sys.argv[2]).write_text(text, encoding="utf-8")


main()
