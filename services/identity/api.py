"""HTTP API of identity: signing in, one's own sessions and tokens, everybody's accounts."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from contracts.wire.identity import (
    Account,
    AccountChange,
    AccountList,
    AccountRequest,
    ApiTokenAnswer,
    ApiTokenList,
    ApiTokenRequest,
    Me,
    PasswordChange,
    ProviderFinish,
    ProviderRedirect,
    ProviderStart,
    Role,
    SessionAnswer,
    SessionFromToken,
    SessionList,
    SignIn,
    SignInMethods,
)
from services.identity import accounts, api_tokens, external, provider, sessions
from services.identity.errors import (
    LastAdmin,
    Locked,
    NameTaken,
    NoProvider,
    NoSession,
    ProviderUnavailable,
    SignInRefused,
    TooManyTokens,
    UnknownAccount,
    UnknownSession,
    UnknownToken,
    WeakPassword,
    WrongSignIn,
)
from services.identity.limits import provider_settings
from services.kit.admission import Admission
from services.kit.auth import OWN, Subject, requires
from services.kit.database import SessionDep, transaction
from services.kit.pages import PageDep, encode_cursor
from services.kit.problems import declare

router = APIRouter(tags=["identity"])

Self = Annotated[Subject, requires(OWN)]
Reader = Annotated[Subject, requires("identity:read")]
Ruler = Annotated[Subject, requires("identity:write")]
Note = Annotated[bool, Query(description="whether this counts as use, which keeps the session from becoming idle")]


@router.get("/v1/sign-in-methods")
def get_sign_in_methods() -> SignInMethods:
    """How people can sign in: with a password always, at an identity provider where one is set up."""
    known = provider_settings()
    return SignInMethods(provider=known.label if known.issuer and known.client_id and known.redirect_url else None)


@router.post("/v1/sessions", status_code=201, responses=declare(WrongSignIn, Locked))
def sign_in(request: SignIn, _place: Admission) -> SessionAnswer:
    """A session for name and password. A wrong one and an unknown name get the same answer after the same work."""
    return accounts.sign_in(request)


@router.post("/v1/provider-sign-ins", status_code=201, responses=declare(NoProvider, ProviderUnavailable))
def begin_provider_sign_in(_request: ProviderStart, _place: Admission) -> ProviderRedirect:
    """Begin to sign in at the identity provider: send the browser to `url`, keep `binding` in a cookie of it."""
    return provider.begin()


@router.post(
    "/v1/provider-sessions", status_code=201, responses=declare(NoProvider, SignInRefused, ProviderUnavailable)
)
def finish_provider_sign_in(answer: ProviderFinish, _place: Admission) -> SessionAnswer:
    """A session for what the identity provider sent back; each answer of it counts once."""
    claims = provider.finish(answer)
    with transaction() as session:
        return external.sign_in(session, provider.configured(), claims, answer.browser)


@router.post("/v1/token-sessions", status_code=201, responses=declare(NoSession))
def begin_token_session(request: SessionFromToken, subject: Self, session: SessionDep) -> SessionAnswer:
    """A session for the holder of an operator's token, with the token's scopes and no longer than it is valid."""
    return sessions.start_for_token(session, subject, request.browser)


@router.get("/v1/me")
def get_me(subject: Self, session: SessionDep, use: Note = False) -> Me:
    """Who holds the token of this request, and what it opens."""
    row, account = sessions.with_account(session, subject)
    if use and row is not None:
        sessions.note_use(session, row)
    return Me(
        name=subject.id,
        role=Role(account.role) if account is not None else None,
        scopes=tuple(sorted(subject.scopes)),
        session=row.token_id if row is not None else None,
        has_password=account is not None and account.password_hash is not None,
        ends=row.ends_at if row is not None else None,
    )


@router.get("/v1/sessions")
def list_own_sessions(subject: Self, session: SessionDep) -> SessionList:
    """The caller's open sessions, newest first."""
    rows = sessions.of_holder(session, subject.id)
    return SessionList(items=tuple(sessions.view(row, subject) for row in rows))


@router.delete("/v1/sessions/{session_id}", status_code=204, responses=declare(NoSession, UnknownSession))
def end_own_session(session_id: str, subject: Self, session: SessionDep) -> Response:
    """End one of the caller's sessions; `current` is the one of this request."""
    chosen = subject.token_id if session_id == "current" else session_id
    sessions.end_one(session, subject, chosen)
    return Response(status_code=204)


@router.post("/v1/password", status_code=201, responses=declare(NoSession, WrongSignIn, Locked, WeakPassword))
def change_own_password(request: PasswordChange, subject: Self) -> SessionAnswer:
    """Change one's own password. Every session ends; the answer is a new one."""
    return accounts.change_own_password(subject, request, "")


@router.get("/v1/tokens", responses=declare(NoSession))
def list_own_tokens(subject: Self, session: SessionDep) -> ApiTokenList:
    """The caller's valid API tokens, newest first."""
    account = sessions.personal(session, subject).account or ""
    found = api_tokens.valid_of(session, account)
    return ApiTokenList(items=tuple(api_tokens.view(token, label) for token, label in found))


@router.post("/v1/tokens", status_code=201, responses=declare(NoSession, TooManyTokens))
def create_own_token(request: ApiTokenRequest, subject: Self, session: SessionDep) -> ApiTokenAnswer:
    """A token for a script, with some or all of the caller's own scopes. It is shown this once."""
    return api_tokens.make(session, subject, request)


@router.delete("/v1/tokens/{token_id}", status_code=204, responses=declare(NoSession, UnknownToken))
def revoke_own_token(token_id: str, subject: Self, session: SessionDep) -> Response:
    """Revoke one of the caller's API tokens."""
    api_tokens.revoke(session, subject, token_id)
    return Response(status_code=204)


@router.get("/v1/accounts")
def list_accounts(_subject: Reader, session: SessionDep, request: PageDep) -> AccountList:
    """Accounts by name."""
    rows = accounts.page(session, request)
    shown = rows[: request.limit]
    cursor = encode_cursor(shown[-1].name) if len(rows) > request.limit else None
    return AccountList(items=tuple(accounts.views(session, shown)), next_cursor=cursor)


@router.post("/v1/accounts", status_code=201, responses=declare(NameTaken, WeakPassword))
def create_account(request: AccountRequest, subject: Ruler, session: SessionDep) -> Account:
    """A new local account."""
    return accounts.view(session, accounts.create(session, subject, request))


@router.patch("/v1/accounts/{name}", responses=declare(UnknownAccount, LastAdmin, WeakPassword))
def change_account(name: str, request: AccountChange, subject: Ruler, session: SessionDep) -> Account:
    """Change role, password or whether the account may be used; its sessions end in any case."""
    return accounts.view(session, accounts.change(session, subject, name, request))
