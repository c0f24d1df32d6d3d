"""hawkBit's DDI under `/releases/ddi/{tenant}/controller/v1/{controllerId}`: every answer of success is exactly 200."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse
from pydantic import BaseModel
from sqlalchemy.orm import Session

from services.kit.audit import record
from services.kit.auth import Subject, issue_token, requires
from services.kit.database import SessionDep
from services.kit.problems import NotFound, TooManyRequests, Unauthorized, declare
from services.releases import feedback
from services.releases.ddi import actions, artifacts, states
from services.releases.ddi.devices import describe, device_of, speaks_ddi
from services.releases.ddi.messages import ConfigData, ConfirmationFeedback, Feedback
from services.releases.errors import ActionGone, BadBundle, HashMismatch, NotReleasable, UnknownBundle
from services.releases.models import BundleRow, DdiAction, DdiArtifact, DdiDevice

BASE = "/ddi/{tenant}/controller/v1/{controller_id}"
SLEEP = "00:00:30"
GATEWAY_SCOPES = ("updates:read", "feedback:write")
LINKS = {
    states.WAITING: "confirmationBase",
    states.CANCELING: "cancelAction",
    states.OPEN: "deploymentBase",
}

router = APIRouter(tags=["releases: hawkBit DDI"], responses=declare(NotFound, Unauthorized))
Json = dict[str, Any]  # Any: JSON
Reader = Annotated[Subject, speaks_ddi("updates:read")]
Writer = Annotated[Subject, speaks_ddi("feedback:write")]
Writing = Annotated[Subject, requires("releases:write")]
Tenant = Annotated[str, Path(max_length=64)]
Controller = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$")]
Number = Annotated[int, Path(ge=1)]


class GatewayToken(BaseModel):
    """A gateway's token, shown this once. Any device behind the gateway is registered at first contact."""

    token: str


@router.post("/v1/ddi/gateway-tokens", status_code=201)
def create_gateway_token(subject: Writing, session: SessionDep) -> GatewayToken:
    """A token for a gateway that speaks for DDI devices."""
    record(session, subject, "ddi.gateway-token.created", "ddi")
    return GatewayToken(token=issue_token(session, "service", "ddi-gateway", GATEWAY_SCOPES))


class ImageRecord(BaseModel):
    """What DDI devices are offered for a bundle."""

    digest: str
    filename: str
    size: int
    sha256: str


@router.put("/v1/ddi/images/{digest}", responses=declare(UnknownBundle, BadBundle, NotReleasable))
def put_ddi_image(
    digest: Annotated[str, Path(pattern=r"^[0-9a-f]{96}$")],
    body: Annotated[bytes, Body(media_type="application/octet-stream")],
    subject: Writing,
    session: SessionDep,
) -> ImageRecord:
    """Offer DDI devices a signed SWUpdate image that holds the bundle, byte for byte, instead of the bundle itself."""
    found = artifacts.use_image(session, subject, digest, body)
    return ImageRecord(digest=digest, filename=found.filename, size=found.size, sha256=found.sha256)


@router.get(BASE)
def ddi_poll(tenant: Tenant, controller_id: Controller, subject: Reader, session: SessionDep, request: Request) -> Json:
    """What there is to do: at most one of an installation, a cancel, a question to the user."""
    device, own = device_of(session, subject, tenant, controller_id)
    action = actions.current(session, device, own)
    base, links = _base(request, tenant, controller_id), {}
    if action is not None:
        name = LINKS[action.state]
        links[name] = {"href": f"{base}/{name}/{action.id}"}
    if own.installed_action is not None:
        links["installedBase"] = {"href": f"{base}/installedBase/{own.installed_action}"}
    if own.wants_attributes:
        links["configData"] = {"href": f"{base}/configData"}
    return {"config": {"polling": {"sleep": SLEEP}}, "_links": links}


@router.put(BASE + "/configData", response_class=Response)
def ddi_config_data(
    tenant: Tenant, controller_id: Controller, config: ConfigData, subject: Writer, session: SessionDep
) -> Response:
    """The device's attributes; those that are tags of ours decide which releases it gets."""
    device, own = device_of(session, subject, tenant, controller_id)
    describe(device, own, config)
    feedback.follow_tags(session, device)
    return Response()


@router.get(BASE + "/deploymentBase/{action_id}")
def ddi_deployment(
    tenant: Tenant, controller_id: Controller, action_id: Number, subject: Reader, session: SessionDep, request: Request
) -> Json:
    """The job."""
    device, _ = device_of(session, subject, tenant, controller_id)
    action = actions.of_device(session, device, action_id, (states.OPEN,))
    return _job(session, request, tenant, controller_id, action, "deployment")


@router.post(
    BASE + "/deploymentBase/{action_id}/feedback",
    response_class=Response,
    responses=declare(ActionGone, TooManyRequests),
)
def ddi_deployment_feedback(
    tenant: Tenant, controller_id: Controller, action_id: Number, said: Feedback, subject: Writer, session: SessionDep
) -> Response:
    """How the installation goes, and how it ended."""
    device, own = device_of(session, subject, tenant, controller_id)
    actions.progress(session, device, own, actions.of_device(session, device, action_id), said)
    return Response()


@router.get(BASE + "/cancelAction/{action_id}")
def ddi_cancel(
    tenant: Tenant, controller_id: Controller, action_id: Number, subject: Reader, session: SessionDep
) -> Json:
    """Which action to stop."""
    device, _ = device_of(session, subject, tenant, controller_id)
    action = actions.of_device(session, device, action_id, (states.CANCELING,))
    return {"id": str(action.id), "cancelAction": {"stopId": str(action.id)}}


@router.post(
    BASE + "/cancelAction/{action_id}/feedback", response_class=Response, responses=declare(ActionGone, TooManyRequests)
)
def ddi_cancel_feedback(
    tenant: Tenant, controller_id: Controller, action_id: Number, said: Feedback, subject: Writer, session: SessionDep
) -> Response:
    """Whether the device stopped."""
    device, _ = device_of(session, subject, tenant, controller_id)
    actions.cancelling(actions.of_device(session, device, action_id), said)
    return Response()


@router.get(BASE + "/installedBase/{action_id}")
def ddi_installed(
    tenant: Tenant, controller_id: Controller, action_id: Number, subject: Reader, session: SessionDep, request: Request
) -> Json:
    """The job that was installed last."""
    device, own = device_of(session, subject, tenant, controller_id)
    if own.installed_action != action_id:
        raise NotFound(f"action {action_id} is not what device {controller_id} installed last")
    action = actions.of_device(session, device, action_id)
    return _job(session, request, tenant, controller_id, action, "deployment")


@router.get(BASE + "/confirmationBase")
def ddi_consent_settings(tenant: Tenant, controller_id: Controller, subject: Reader, session: SessionDep) -> Json:
    """Whether actions wait for a user."""
    _, own = device_of(session, subject, tenant, controller_id)
    return {"autoConfirm": {"active": own.auto_confirm}}


@router.get(BASE + "/confirmationBase/{action_id}")
def ddi_confirmation(
    tenant: Tenant, controller_id: Controller, action_id: Number, subject: Reader, session: SessionDep, request: Request
) -> Json:
    """The job that waits for a user."""
    device, _ = device_of(session, subject, tenant, controller_id)
    action = actions.of_device(session, device, action_id, (states.WAITING,))
    return _job(session, request, tenant, controller_id, action, "confirmation")


@router.post(
    BASE + "/confirmationBase/{action_id}/feedback",
    response_class=Response,
    responses=declare(ActionGone, TooManyRequests),
)
def ddi_confirmation_feedback(
    tenant: Tenant,
    controller_id: Controller,
    action_id: Number,
    said: ConfirmationFeedback,
    subject: Writer,
    session: SessionDep,
) -> Response:
    """What the user said."""
    device, _ = device_of(session, subject, tenant, controller_id)
    actions.consent(actions.of_device(session, device, action_id), said.confirmation, said.details)
    return Response()


@router.post(BASE + "/confirmationBase/activateAutoConfirm", response_class=Response)
def ddi_activate_auto_confirm(
    tenant: Tenant, controller_id: Controller, subject: Writer, session: SessionDep
) -> Response:
    """From now on nothing waits for the user."""
    return _set_auto_confirm(device_of(session, subject, tenant, controller_id)[1], True)


@router.post(BASE + "/confirmationBase/deactivateAutoConfirm", response_class=Response)
def ddi_deactivate_auto_confirm(
    tenant: Tenant, controller_id: Controller, subject: Writer, session: SessionDep
) -> Response:
    """From now on every action waits for the user."""
    return _set_auto_confirm(device_of(session, subject, tenant, controller_id)[1], False)


@router.get(BASE + "/softwaremodules/{module_id}/artifacts")
def ddi_artifacts(
    tenant: Tenant, controller_id: Controller, module_id: Number, subject: Reader, session: SessionDep, request: Request
) -> list[Json]:
    """The files of a module: one."""
    device_of(session, subject, tenant, controller_id)
    found = artifacts.by_module(session, module_id)
    return [_artifact(found, _base(request, tenant, controller_id))]


@router.get(
    BASE + "/softwaremodules/{module_id}/artifacts/{filename}",
    response_class=FileResponse,
    responses=declare(HashMismatch),
)
def ddi_download(
    tenant: Tenant,
    controller_id: Controller,
    module_id: Number,
    filename: Annotated[str, Path(max_length=100)],
    subject: Reader,
    session: SessionDep,
    if_match: Annotated[str | None, Header(max_length=200)] = None,
) -> Response:
    """The bytes, whole or by range, or the line of its MD5 sum."""
    device_of(session, subject, tenant, controller_id)
    name = filename.removesuffix(".MD5SUM")
    found, path = artifacts.file_of(session, module_id, name)
    if name != filename:
        return PlainTextResponse(f"{found.md5}  {found.filename}")
    if if_match is not None and if_match.strip('"') not in (found.sha1, "*"):
        raise HashMismatch(f"artifact {filename} has the SHA-1 {found.sha1}, you asked for another one")
    return FileResponse(path, media_type="application/octet-stream", headers={"ETag": f'"{found.sha1}"'})


def _set_auto_confirm(own: DdiDevice, active: bool) -> Response:
    own.auto_confirm = active
    return Response()


def _job(session: Session, request: Request, tenant: str, controller_id: str, action: DdiAction, member: str) -> Json:
    bundle = session.get_one(BundleRow, action.digest)
    found = artifacts.artifact_of(session, action.digest)
    chunk = {
        "part": "bApp",
        "version": bundle.release_version,
        "name": "edgeloop",
        "artifacts": [_artifact(found, _base(request, tenant, controller_id))],
    }
    return {"id": str(action.id), member: {"download": "forced", "update": "forced", "chunks": [chunk]}}


def _artifact(found: DdiArtifact, base: str) -> Json:
    href = f"{base}/softwaremodules/{found.id}/artifacts/{found.filename}"
    links = ("download", "download-http", "md5sum", "md5sum-http")
    return {
        "filename": found.filename,
        "size": found.size,
        "hashes": {"sha1": found.sha1, "md5": found.md5, "sha256": found.sha256},
        "_links": {name: {"href": href + (".MD5SUM" if name.startswith("md5") else "")} for name in links},
    }


def _base(request: Request, tenant: str, controller_id: str) -> str:
    path = request.url.path.partition("/ddi/")[0]
    return f"{str(request.base_url).rstrip('/')}{path}/ddi/{tenant}/controller/v1/{controller_id}"
