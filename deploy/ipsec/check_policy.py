#!/usr/bin/env python3
"""Checks swanctl.conf files of strongSwan against the profile that iWARP is to have: check_policy.py [DIRECTORY|FILE...]

A directory (default: /etc/swanctl) stands for its swanctl.conf, conf.d/*.conf and directories of private keys. Prints a line for
each finding, `fault` or `warning`; exit status 1 when there is a fault. The profile is that of RFC 3723, section 2.3, as RFC 5040
asks in its section 8.2.2, with today's key lengths. Whether a file can be read at all, strongSwan says: swanctl --load-all.
"""
import os
import re
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, Union

PORT = "20049"
TOKEN = re.compile(r'\s*(?:#[^\n]*|([{}])|([^\s{}=#"]+)[ \t]*(\{)|([^\s{}=#"]+)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\n#}]*))')
INCLUDED = re.compile(
    r"^include conf\.d/\*\.conf$", re.MULTILINE
)  # of Debian's swanctl.conf; those files are looked at by themselves
KEY_DIRECTORIES = ("private", "rsa", "ecdsa", "pkcs8", "pkcs12", "bliss")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
HOUR = 3600

ENCRYPTION = re.compile(r"(aes(128|192|256)?(ctr|gcm(8|12|16)?|ccm(8|12|16)?)?|3des|chacha20poly1305|camellia.*)$")
COMBINED = re.compile(r"aes.*(gcm|ccm)|chacha20poly1305")
INTEGRITY = re.compile(r"(sha1|sha|sha256|sha2_256|sha384|sha512|aesxcbc|aescmac)$")
GROUP = re.compile(r"(modp|ecp|curve|x25519|x448)")
GROUP_BITS_MIN = {"modp": 2048, "ecp": 256}
IKE_SECONDS_MAX, SA_SECONDS_MIN, SA_SECONDS_MAX = 24 * HOUR, 300, 8 * HOUR
SHORT_BLOCKS_BYTES_MAX = 32 << 30  # 2^32 blocks of 64 bits: beyond, blocks of 3DES begin to repeat
SEQUENCE_NUMBERS = 1 << 32
SECRET_CHARACTERS_MIN = 20
# What authenticates by a signature. IKEv1's encryption by public keys does not, nor does a password (xauth, eap).
SIGNATURE = re.compile(r"(pubkey|(ike:)?(rsa|ecdsa|ed25519|ed448)(-.*)?|pubkey-.*)$")

Section = dict[str, Union[str, "Section"]]


class NotUnderstood(Exception):
    """The file has something that is not looked into, so nothing can be said of it."""


def parse(text: str) -> Section:
    root: Section = {}
    open_sections = [root]
    at = 0
    while text[at:].strip():
        found = TOKEN.match(text, at)
        if found is None:
            line = text.count("\n", 0, at) + 1
            raise NotUnderstood(f"line {line}: {text[at:].strip().splitlines()[0]!r} is not understood")
        at = found.end()
        brace, name, opened, key, value = found.groups()
        if brace == "}" and len(open_sections) > 1:
            open_sections.pop()
        elif brace:
            raise NotUnderstood(f"line {text.count(chr(10), 0, at) + 1}: a {brace} too many")
        elif opened:
            section = open_sections[-1].setdefault(name, {})
            open_sections.append(section)  # type: ignore[arg-type]
        elif key:
            open_sections[-1][key] = value.strip().strip('"')
    if len(open_sections) > 1:
        raise NotUnderstood("a section does not end")
    return root


def sections(of: Section, name: str = "") -> dict[str, Section]:
    inside = of.get(name, {}) if name else of
    return {key: value for key, value in inside.items() if isinstance(value, dict)} if isinstance(inside, dict) else {}


def seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)([smhd]?)", text)
    if not found:
        raise NotUnderstood(f"{text!r} is no time")
    return int(found[1]) * UNITS[found[2]]


@dataclass
class Report:
    findings: list[tuple[str, str, str]] = field(default_factory=list)  # severity, where, what

    def fault(self, where: str, what: str) -> None:
        self.findings.append(("fault", where, what))

    def warn(self, where: str, what: str) -> None:
        self.findings.append(("warning", where, what))

    @property
    def faults(self) -> list[str]:
        return [f"{where}: {what}" for severity, where, what in self.findings if severity == "fault"]


def check_proposal(report: Report, where: str, proposal: str, version: str, esp: bool) -> set[str]:
    """Returns its Diffie-Hellman groups."""
    words = [word for word in proposal.strip().split("-") if word]
    groups = {word for word in words if GROUP.match(word)}
    prfs = {word for word in words if word.startswith("prf")}
    ciphers = [word for word in words if word.startswith("null") or ENCRYPTION.match(word)]
    integrity = [word for word in words if INTEGRITY.match(word)]
    unknown = set(words) - groups - prfs - set(ciphers) - set(integrity) - {"esn", "noesn"}
    if unknown:
        report.fault(where, f"{proposal}: {', '.join(sorted(unknown))} is not of the profile")
    if not ciphers:
        report.fault(where, f"{proposal}: names no cipher")
    combined = [cipher for cipher in ciphers if COMBINED.match(cipher)]
    if esp and not integrity and len(combined) < len(ciphers):
        report.fault(where, f"{proposal}: packets are not authenticated")
    if any(cipher.startswith("null") for cipher in ciphers):
        (report.warn if esp else report.fault)(where, f"{proposal}: not encrypted, so everybody on the path reads it")
    if "3des" in ciphers and version != "1":
        report.fault(where, f"{proposal}: 3DES is for peers that have nothing but RFC 3723 (version = 1)")
    if not groups:
        report.fault(where, f"{proposal}: names no Diffie-Hellman group, so whoever gets one key later reads the rest")
    for group in groups:
        kind = "ecp" if group.startswith("ecp") else "modp" if group.startswith("modp") else ""
        bits = re.sub(r"\D.*", "", group[len(kind) :]) if kind else ""
        if bits and int(bits) < GROUP_BITS_MIN[kind]:
            report.fault(where, f"{proposal}: {group} is too short")
    return groups


def proposals_of(report: Report, where: str, owner: Section, key: str, version: str) -> list[set[str]]:
    text = str(owner.get(key, "default"))
    if text == "default":
        report.fault(where, f"{key}: say which; the defaults offer whatever strongSwan has")
        return []
    esp = key == "esp_proposals"
    return [check_proposal(report, f"{where}.{key}", one, version, esp) for one in text.split(",")]


def is_fixed(addresses: object) -> bool:
    """One address, or several, each written out: neither %any nor a range, network or name that DNS may change."""
    words = [word.strip() for word in str(addresses or "%any").split(",")]
    return all(re.fullmatch(r"[0-9.]+|[0-9a-fA-F:]+:[0-9a-fA-F:.]*", word) for word in words)


def check_authentication(report: Report, where: str, connection: Section) -> set[str]:
    methods = set()
    for side in ("local", "remote"):
        rounds = [value for key, value in sections(connection).items() if key.startswith(side)]
        if not rounds:
            report.fault(where, f"no section {side}: nobody is authenticated")
        for one in rounds:
            method = str(one.get("auth", "pubkey"))
            methods.add("psk" if method == "psk" else "signature" if SIGNATURE.match(method) else "other")
            if methods & {"other"}:
                report.fault(f"{where}.{side}", f"auth = {method}: neither a pre-shared key nor a digital signature")
            if side == "remote" and method != "psk":
                if str(one.get("revocation", "relaxed")) != "strict":
                    report.fault(
                        f"{where}.remote", "revocation: without strict a revoked certificate passes as long as no list is found"
                    )
                if str(one.get("id", "%any")) == "%any":
                    report.fault(f"{where}.remote", "id: every certificate of the authority would do")
                if not one.get("cacerts") and not one.get("certs"):
                    report.fault(f"{where}.remote", "cacerts: certificates of any authority of this host would do")
    return methods


def check_connection(report: Report, where: str, connection: Section) -> None:
    version = str(connection.get("version", "0"))
    if version not in ("1", "2"):
        report.fault(where, "version: say 1 or 2; else a peer chooses the older one")
    groups = proposals_of(report, where, connection, "proposals", version)
    aggressive = connection.get("aggressive", "no") == "yes"
    methods = check_authentication(report, where, connection)
    if version == "1" and "psk" in methods:
        if aggressive:
            report.fault(where, "Aggressive Mode with a pre-shared key: who listens can guess the key at leisure")
        dynamic = [key for key in ("local_addrs", "remote_addrs") if not is_fixed(connection.get(key))]
        if dynamic:
            report.fault(
                where, f"Main Mode with a pre-shared key, and {' and '.join(dynamic)} not fixed: all would share one key"
            )
    if "signature" in methods and connection.get("send_certreq", "yes") == "no":
        report.fault(where, "send_certreq: peers are not told which authorities are trusted")
    lifetime = seconds(str(connection.get("rekey_time", "4h"))) or seconds(str(connection.get("reauth_time", "0")))
    if not 0 < lifetime <= IKE_SECONDS_MAX:
        report.fault(where, f"rekey_time: {lifetime} s, where at most {IKE_SECONDS_MAX} s is meant, and 0 is for ever")
    if seconds(str(connection.get("dpd_delay", "0"))) == 0:
        report.warn(where, "dpd_delay: a peer that has restarted is not noticed")
    children = sections(connection, "children")
    if not children:
        report.fault(where, "no section children: nothing is protected")
    for name, child in children.items():
        check_child(report, f"{where}.{name}", child, version, groups)


def check_child(report: Report, where: str, child: Section, version: str, ike_groups: list[set[str]]) -> None:
    mode = str(child.get("mode", "tunnel"))
    if mode not in ("tunnel", "transport"):
        report.fault(where, f"mode = {mode}: tunnel or transport")
    if "ah_proposals" in child:
        report.fault(where, "ah_proposals: AH encrypts nothing; the profile is ESP")
    for groups in proposals_of(report, where, child, "esp_proposals", version):
        if version == "1" and not any(groups & of_ike for of_ike in ike_groups):
            report.fault(where, f"esp_proposals: {', '.join(sorted(groups))} is no group of the connection's own proposals")
    if not int(str(child.get("replay_window", "32"))):
        report.fault(where, "replay_window = 0: whoever recorded packets can send them again")
    if child.get("policies", "yes") == "no":
        report.fault(where, "policies = no: nothing makes packets take the SA")
    lifetime = seconds(str(child.get("rekey_time", "1h")))
    if not SA_SECONDS_MIN <= lifetime <= SA_SECONDS_MAX:
        report.fault(where, f"rekey_time: {lifetime} s, where {SA_SECONDS_MIN} to {SA_SECONDS_MAX} s is meant")
    packets = int(str(child.get("rekey_packets", "0")))
    if not 0 < packets < SEQUENCE_NUMBERS:
        report.fault(where, "rekey_packets: sequence numbers end at 2^32 packets, minutes on a fast link; rekey before")
    if "3des" in str(child.get("esp_proposals")) and not 0 < int(str(child.get("rekey_bytes", "0"))) <= SHORT_BLOCKS_BYTES_MAX:
        report.fault(where, f"rekey_bytes: 3DES has to have a new key before {SHORT_BLOCKS_BYTES_MAX} bytes")
    if "trap" not in str(child.get("start_action", "none")):
        report.warn(where, "start_action without trap: while no SA is up, only-ipsec.nft alone keeps cleartext out")


def protects_port(child: Section) -> bool:
    """Whether packets of iWARP's port take its SAs: its selectors name the port, or leave protocol and port open."""
    selectors = " ".join(str(child.get(side, "dynamic")) for side in ("local_ts", "remote_ts"))
    return f"tcp/{PORT}]" in selectors or "[" not in selectors


def check_secrets(report: Report, where: str, secrets: dict[str, Section], path: Path) -> None:
    for name, secret in secrets.items():
        text = str(secret.get("secret", ""))
        if name.startswith("ike") and (len(text) < SECRET_CHARACTERS_MIN or " " in text):
            report.fault(f"{where}.{name}", "secret: take 32 random bytes (openssl rand -base64 32)")
    if secrets:
        check_private(report, path)


def check_private(report: Report, path: Path) -> None:
    about = path.stat()
    if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        report.fault(
            str(path), f"mode {stat.S_IMODE(about.st_mode):04o}: others than its owner get at the secrets in it (chmod 600)"
        )
    if about.st_uid not in (0, os.geteuid()):
        report.fault(str(path), f"belongs to user {about.st_uid}, who gets at the secrets in it")


def files_of(arguments: list[Path]) -> Iterator[Path]:
    for path in arguments:
        if path.is_dir():
            yield from (one for one in [path / "swanctl.conf", *sorted(path.glob("conf.d/*.conf"))] if one.exists())
        else:
            yield path


def check(arguments: list[Path]) -> Report:
    report = Report()
    protected = 0
    for path in files_of(arguments):
        try:
            settings = parse(INCLUDED.sub("", path.read_text(encoding="utf-8")))
            for name, connection in sections(settings, "connections").items():
                check_connection(report, f"{path}: {name}", connection)
                protected += sum(protects_port(child) for child in sections(connection, "children").values())
            check_secrets(report, f"{path}: secrets", sections(settings, "secrets"), path)
        except (NotUnderstood, ValueError) as error:
            report.fault(str(path), str(error))
    for directory in (path for path in arguments if path.is_dir()):
        for key in (key for name in KEY_DIRECTORIES for key in sorted((directory / name).glob("*"))):
            check_private(report, key)
    if not protected:
        report.fault(
            "connections", f"none protects TCP port {PORT}: whatever is encrypted above RDMAP, RDMAP itself is in cleartext"
        )
    return report


def main() -> int:
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    report = check([Path(word) for word in sys.argv[1:]] or [Path("/etc/swanctl")])
    for severity, where, what in report.findings:
        print(f"{severity:8} {where}: {what}")
    print(f"{len(report.faults)} faults")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
