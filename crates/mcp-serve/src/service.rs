//! The service behind a server, and what it may offer beside its tools.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_core::server::{Access, Audit, ChangeNotifier, Principal, Server, TaskStore};
use mcp_core::tool::ToolError;
use prometheus_client::registry::Registry;

/// Paths of a service's own, beside `/mcp`. A request is authenticated if it has a token; the service decides
/// what callers without one may do.
pub trait OwnPaths: Send + Sync {
    /// The text with which these paths begin, such as `/approvals/`.
    fn prefix(&self) -> &'static str;

    /// Answers a `POST` with a status and JSON.
    fn post<'a>(
        &'a self,
        path: &'a str,
        caller: Option<&'a Principal>,
        body: &'a [u8],
    ) -> BoxFuture<'a, (u16, String)>;
}

/// Lists the owners of the tokens that are valid now.
pub type TokenOwners = Arc<dyn Fn() -> Vec<Arc<Principal>> + Send + Sync>;

/// The service behind a server.
pub trait Service: Send + Sync + 'static {
    /// True if it relays calls to other servers, and their tools to clients.
    const RELAYS: bool = false;

    /// True if calls send log messages to the client.
    const LOGS: bool = false;

    /// Most bytes of a result, which holds its JSON as a structure and as text.
    const MAX_RESULT_BYTES: usize = usize::MAX;

    /// Asks the service whether it would serve a call now, within a few seconds.
    ///
    /// # Errors
    /// The reason why it would not, in words for the operator and the model.
    fn probe(&self) -> impl Future<Output = Result<(), ToolError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Asks for the command `doctor` whether it would serve calls.
    fn check(self: Arc<Self>, server: Arc<Server>) -> impl Future<Output = Checkup> + Send {
        let _ = server;
        async move {
            let asked = self.probe().await;
            Checkup::of(asked.map(|()| "it answers and accepts the key".to_owned()))
        }
    }

    /// Runs in the background, from the start to the stop of the server: follows changes of the
    /// service, and publishes changed lists ([`Server::publish`]).
    fn run(self: Arc<Self>, server: Arc<Server>) -> impl Future<Output = ()> + Send {
        let _ = server;
        std::future::ready(())
    }

    /// Ends everything that it has started. The server waits for it for up to 10 s.
    fn stop(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Receives the owners of all tokens, if no issuer gives out others.
    fn follow_tokens(&self, owners: TokenOwners) {
        let _ = owners;
    }

    /// The channel that announces changes of lists and resources; `None` if they never change.
    fn changes(&self) -> Option<ChangeNotifier> {
        None
    }

    /// The parts that it has beside its tools. Asked once, before the first request.
    fn parts(self: &Arc<Self>) -> ServiceParts {
        ServiceParts::default()
    }

    /// Completes when its lists are complete. The server waits for it before it answers its first request: for up to
    /// 5 s, or 15 s where other processes serve its clients meanwhile.
    fn ready(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Registers its own metrics, which `/metrics` shows beside those of the server.
    fn register(&self, registry: &mut Registry) {
        let _ = registry;
    }
}

impl Service for () {}

/// The findings of [`Service::check`].
#[derive(Debug, Default)]
pub struct Checkup {
    /// Names what answers, with its version; `None` if it would not serve calls.
    pub answer: Option<String>,
    /// Doubts about what it serves.
    pub warnings: Vec<String>,
    /// The reasons why it would not serve all calls.
    pub problems: Vec<String>,
}

impl Checkup {
    /// The finding of one question.
    pub fn of(asked: Result<String, ToolError>) -> Self {
        let mut found = Self::default();
        match asked {
            Ok(answer) => found.answer = Some(answer),
            Err(error) => found.problems.push(error.message().to_owned()),
        }
        found
    }
}

/// The parts of a service beside its tools: those of a gateway.
#[derive(Clone, Default)]
pub struct ServiceParts {
    /// Decides who may use which items, from the first request on; [`Server::publish`] sets it again. `None` if every
    /// caller may use all.
    pub access: Option<Arc<dyn Access>>,
    /// Records the requests of clients; `None` for no records.
    pub audit: Option<Arc<dyn Audit>>,
    /// Its own paths over HTTP.
    pub paths: Option<Arc<dyn OwnPaths>>,
    /// The sessions of all processes that serve the same clients; `None` for one process alone.
    pub shared_sessions: Option<Arc<dyn SharedSessions>>,
    /// Keeps tasks for the other processes that serve the same clients; `None` for one process alone.
    pub task_store: Option<Arc<dyn TaskStore>>,
    /// Its content on the page, beside its tools.
    pub page: Option<Arc<dyn PageData>>,
    /// The view of the client over stdio; `None` for the server itself. Over HTTP the path names it.
    pub view: Option<Arc<str>>,
}

/// The content of a service on the page, beside its tools. The service decides what each caller may see and do. A caller
/// is the owner of a token; `None` where no token is required.
pub trait PageData: Send + Sync {
    /// Two numbers that change with what happens and may be known to this caller, and with the lists of the server. The
    /// page then asks again.
    fn revision(&self, caller: Option<&Arc<Principal>>) -> (u64, u64);

    /// Answers a request about `topic` with a status and JSON.
    fn answer<'a>(
        &'a self,
        topic: &'a str,
        caller: Option<&'a Arc<Principal>>,
        body: &'a [u8],
    ) -> BoxFuture<'a, (u16, String)>;
}

/// The sessions that the processes with one session key have.
pub trait SharedSessions: Send + Sync {
    /// Claims a session for this process, which has got its first request for it. Completes with false if the session
    /// has ended, or if its process has ended without giving up its sessions: what that one knew of it is lost.
    fn claim(&self, session: u128) -> BoxFuture<'_, bool>;

    /// Ends a session at all processes. Completes once the others can know that, within a second.
    fn end(&self, session: u128) -> BoxFuture<'_, ()>;

    /// Returns true if a session is known to have ended at any process.
    fn has_ended(&self, session: u128) -> bool;

    /// Returns true if other processes are alive.
    fn has_others(&self) -> bool;
}
