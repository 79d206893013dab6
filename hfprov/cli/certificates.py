"""Certificates: ``hfprov certify | verify | gate | certificates | revoke``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hfprov.cli.options import (
    AskBecomeOption,
    AtOnceOption,
    DbOption,
    DeadlineOption,
    InventoryOption,
    JsonOption,
    LimitOption,
    VaultOption,
    command_line,
    default_db,
    open_record,
    selection,
)
from hfprov.cli.site import open_site
from hfprov.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hfprov.certificate.verification import Shown

SignersOption = Annotated[
    Path | None,
    typer.Option(
        "--allowed-signers",
        help="Whom to trust, as ssh-keygen(1) has it. Default: $HFPROV_ALLOWED_SIGNERS, "
        "/etc/hfprov/allowed_signers, or the one beside the record.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(certify)
    app.command()(verify)
    app.command(
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=False,
    )(gate)
    app.command()(certificates)
    app.command()(revoke)


def certify(
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    profile: Annotated[
        str, typer.Option("--profile", help="What must have been proven.")
    ] = "quick",
    profiles: Annotated[
        Path | None,
        typer.Option("--profiles", envvar="HFPROV_PROFILES", help="A file of own profiles."),
    ] = None,
    waivers: Annotated[
        Path | None,
        typer.Option(
            "--waivers", envvar="HFPROV_WAIVERS", help="Who answers for which findings, and why."
        ),
    ] = None,
    group: Annotated[
        str,
        typer.Option("--group", help="Certify the hosts together, under this name, if all alike."),
    ] = "",
    key: Annotated[
        Path | None,
        typer.Option(
            "--key",
            envvar="HFPROV_SIGNING_KEY",
            help="SSH key to sign with; a '.pub' file for a key in an agent. Default: one beside "
            "the record, made when there is none.",
        ),
    ] = None,
    signer: Annotated[
        str,
        typer.Option(
            "--signer", envvar="HFPROV_SIGNER", help="Name of the key in the allowed signers."
        ),
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the certificates into this folder, too."),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
    vault_password_file: VaultOption = None,
    ask_become_pass: AskBecomeOption = False,
    at_once: AtOnceOption = 64,
    deadline: DeadlineOption = 90.0,
) -> int:
    """Observe hosts, and certify those that prove enough. What is enough, the profile says."""
    from dataclasses import replace

    from hfprov.catalogue.profiles import find_profile
    from hfprov.certificate import issue, places
    from hfprov.certificate.signing import default_principal, ensure_key
    from hfprov.report.certified import certify_document, print_certified
    from hfprov.report.progress import Shown as Progress
    from hfprov.report.terminal import print_json

    wanted = find_profile(profile, profiles)
    chosen = selection(inventory, limit, vault_password_file, ask_become_pass=ask_become_pass)
    chosen = replace(chosen, waivers=waivers)
    site = open_site(chosen, at_once=at_once, deadline=deadline, observing=True)
    home = places.home_of(db or str(default_db()))
    if key is None:
        key = places.key_in(home)
        ensure_key(key, home / "allowed_signers")
    elif not key.is_file():
        raise UsageError(f"There is no key '{key}'.")
    wish = issue.Wish(profile, wanted, key, group, signer or default_principal())
    with (
        open_record(db) as record,
        record.start_run(
            "certify", command_line(), site.fleet.baselines, secrets=site.secrets
        ) as log,
    ):
        shown = Progress(len(site.fleet.baselines))
        done = issue.certify(record, site.fleet, log, wish, shown.on_host)
        log.finish(int(done.code))
    if output is not None:
        signed = {host: (one.text, one.signature) for host, one in done.certificates.items()}
        if done.group.signed:
            name = f"group-{done.group.name}"
            signed[name] = (done.group.signed.text, done.group.signed.signature)
        _write_files(output, signed)
    if as_json:
        print_json(certify_document(done))
    else:
        print_certified(done)
    return int(done.code)


def _write_files(folder: Path, signed: dict[str, tuple[str, str]]) -> None:
    """Write ``NAME.json`` and ``NAME.json.sig``, as ssh-keygen would."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, (text, signature) in signed.items():
            plain = "".join(one if one.isalnum() or one in "-_." else "_" for one in name)
            path = folder / f"{plain.lstrip('.') or '_'}.json"
            path.write_text(text, "utf-8")
            path.with_name(f"{path.name}.sig").write_text(signature, "utf-8")
    except OSError as error:
        raise UsageError(f"'{error.filename}' cannot be written: {error.strerror}.") from error


def verify(
    certificate: Annotated[Path, typer.Argument(help="The certificate, a JSON file.")],
    signature: Annotated[
        Path | None, typer.Option("--signature", help="Its signature. Default: CERTIFICATE.sig.")
    ] = None,
    allowed_signers: SignersOption = None,
    host: Annotated[
        str | None, typer.Option("--host", help="It must be the certificate of this host.")
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="It must be the certificate of this machine.")
    ] = False,
    db: Annotated[
        str | None,
        typer.Option("--db", help="Also ask this record: revoked? Is the evidence as it was?"),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Say whether a certificate holds. Its signature, its time, its machine; contacts nothing."""
    import contextlib
    from datetime import UTC, datetime

    from hfprov.certificate import places
    from hfprov.certificate.verification import verify_file
    from hfprov.report.certified import print_verification, verification_document
    from hfprov.report.terminal import print_json

    home = places.home_of(db or os.environ.get("HFPROV_DB"))
    signers = places.signers_for(home, allowed_signers)
    beside = signature or Path(f"{certificate}.sig")
    with contextlib.ExitStack() as stack:
        record = stack.enter_context(open_record(db, create=False)) if db else None
        found = verify_file(
            certificate, beside, signers, datetime.now(UTC), _shown(host, here=here), record
        )
    if as_json:
        print_json(verification_document(found))
    else:
        print_verification(found)
    return int(ExitCode.GOOD if found.holds else ExitCode.BAD)


def _shown(host: str | None, *, here: bool) -> Shown:
    from hfprov.certificate.verification import Shown
    from hfprov.record.identity import Identity

    if not here:
        return Shown(host)
    found = []
    for path in ("/etc/machine-id", "/sys/class/dmi/id/product_uuid"):
        try:
            found.append(Path(path).read_text("utf-8", "replace").strip())
        except OSError:
            found.append("")
    return Shown(host, Identity(*found))


def gate(context: typer.Context) -> int:
    """Succeed only if every node holds a valid certificate. For prologs and scripts."""
    from hfprov.certificate.gate import main

    return main(context.args)


def certificates(
    host: Annotated[str | None, typer.Argument(help="Only those of this host.")] = None,
    last: Annotated[
        int, typer.Option("--last", "-n", min=1, metavar="NUMBER", help="How many, at most.")
    ] = 100,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write those that hold into this folder."),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """List certificates and what became of them, newest first."""
    from datetime import UTC, datetime

    from hfprov.certificate.revocation import catch_up
    from hfprov.report.certified import certificates_document, print_certificates
    from hfprov.report.terminal import print_json

    with open_record(db, create=False) as record:
        catch_up(record)
        found = record.certificates(host, limit=last)
    now = datetime.now(UTC)
    if output is not None:
        newest = {one.host: one for one in reversed(found) if one.valid_at(now)}
        files = {host: (one.document, one.signature) for host, one in newest.items()}
        _write_files(output, files)
    if as_json:
        print_json(certificates_document(found, now))
    elif not found:
        sys.stdout.write(f"There are no certificates{f' of {host!r}' if host else ''}.\n")
    else:
        print_certificates(found, now)


def revoke(
    certificate: Annotated[str, typer.Argument(help="The id of a certificate.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; recorded and shown.")],
    db: DbOption = None,
) -> None:
    """Revoke a certificate. The gate refuses its node, unless it holds another one."""
    from datetime import UTC, datetime

    from hfprov.certificate.revocation import revoke as end

    with open_record(db, create=False) as record:
        found = record.certificate(certificate)
        end(record, {found.id: reason})
        now = record.certificate(found.id)
        left = record.certificates(now.host, valid_at=datetime.now(UTC))
    typer.echo(f"Certificate '{now.id}' of '{now.host}' is revoked: {now.revoke_reason}")
    for one in left:
        typer.echo(f"The host still holds '{one.id}' of the profile '{one.profile}'.")
