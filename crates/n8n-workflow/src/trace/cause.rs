//! Guesses the cause of a failure and the fix, by rules; the most specific first.

use super::failure::NodeFailure;

/// The probable cause of a failure, and what to try; one sentence each.
pub struct Cause {
    /// The probable cause.
    pub cause: &'static str,
    /// A remedy to try.
    pub advice: &'static str,
}

/// HTTP statuses; parts of the message or the description in lower case, separated by bars, any of
/// which matches; cause; advice.
type Rule = (&'static [u16], &'static str, &'static str, &'static str);

const RULES: &[Rule] = &[
    (
        &[],
        "\"supplydata\" method but no \"execute\"",
        "The node is a part of another one, such as the model or memory of an agent, and a `main` connection leads to it.",
        "Remove that connection, and connect the node to the one that uses it by its ai_ kind.",
    ),
    (
        &[],
        "access to env vars denied",
        "n8n does not let workflows read its environment variables.",
        "Use a credential or a variable of n8n ($vars), or let n8n's operator set N8N_BLOCK_ENV_ACCESS_IN_NODE=false.",
    ),
    (
        &[],
        "cancelled because it timed out",
        "The execution took longer than its workflow may.",
        "Make it faster, or raise executionTimeout in the settings of the workflow.",
    ),
    (
        &[],
        "wrong type: ",
        "A condition compares values of another type than it expects.",
        "Turn on Convert types where required in the node, or convert the value in the expression: .toNumber(), .toString().",
    ),
    (
        &[],
        "no respond to webhook node",
        "The webhook leaves its answer to a Respond to Webhook node, and the workflow has none.",
        "Add that node, or set the webhook's parameter responseMode to lastNode or onReceived.",
    ),
    (
        &[],
        "is disallowed",
        "n8n does not allow code to load this module.",
        "Do without it, or let n8n's operator list it in NODE_FUNCTION_ALLOW_BUILTIN or NODE_FUNCTION_ALLOW_EXTERNAL.",
    ),
    (
        &[],
        "doesn't return items properly|did not return items|return an array of objects",
        "The code returns something else than items.",
        "Return a list of objects such as [{json: {name: value}}]; an empty list for none.",
    ),
    (
        &[],
        "referenced node doesn't exist|referenced node does not exist",
        "An expression of the node names a node that the workflow does not have.",
        "Write the name in $('…') as the node is called now; get_workflow lists the nodes.",
    ),
    (
        &[],
        "invalid syntax",
        "An expression of the node has a syntax error.",
        "Correct what stands between {{ and }} in the parameter named here.",
    ),
    (
        &[],
        "workflow is not active and cannot be executed|workflow does not exist|could not find workflow",
        "The workflow that the node starts does not exist or is not published.",
        "Choose another workflow in the node, or activate that one.",
    ),
    (
        &[],
        "credentials not found|does not have any credentials|no credentials|\
         credential with id|credentials of type",
        "The node has no credentials, or they were deleted or not shared with the workflow's project.",
        "Choose credentials in the node; list_credentials (toolset credentials) shows those that exist.",
    ),
    (
        &[401],
        "authorization failed|unauthorized|invalid api key|invalid_auth|\
         authentication failed|expired token|token expired|invalid_grant",
        "The service refuses the credentials of the node: wrong, expired or revoked.",
        "Renew the credentials in n8n and retry the execution.",
    ),
    (
        &[403],
        "forbidden|insufficient permission|insufficient scope|access denied|permission denied",
        "The credentials are valid but may not do this.",
        "Give their account or scope the permission, then retry the execution.",
    ),
    (
        &[429],
        "too many requests|rate limit|quota",
        "The service limits the rate of requests.",
        "Put a Wait or Loop node before it, or set batching and Retry On Fail in the node; retry later.",
    ),
    (
        &[408, 504],
        "timeout|timed out|etimedout|econnaborted",
        "The service did not answer in time.",
        "Retry the execution; if it happens again, ask for less at once or raise the timeout of the node.",
    ),
    (
        &[],
        "econnrefused|refused the connection|perhaps it is offline|enotfound|eai_again|\
         econnreset|ehostunreach|getaddrinfo|connection cannot be established|\
         connect to the server|connection error|unable to verify|certificate",
        "n8n cannot connect to the address in the node: wrong host or port, the service is down, or its certificate is not trusted.",
        "Check the URL as n8n's own machine sees it: localhost is n8n itself.",
    ),
    (
        &[404],
        "could not be found|not found - |resource you are requesting",
        "What the node asks for does not exist at that address.",
        "Check the URL or the id in the node's parameters against its input.",
    ),
    (
        &[400, 409, 415, 422],
        "bad request",
        "The service does not accept the request: a parameter is missing or has the wrong form.",
        "Compare the parameters of the node with its input; an expression may have been empty.",
    ),
    (
        &[500, 502, 503],
        "service was not able to process|internal server error|bad gateway|\
         service unavailable",
        "The service itself failed.",
        "Retry the execution later; set Retry On Fail in the node if it happens often.",
    ),
    (
        &[],
        "cannot read propert|undefined|is not a function|is not iterable|is not defined|\
         no path back|referenced node|expressionerror|can't determine which item",
        "The code or expression uses something that its input does not have.",
        "Compare the names in it with the input shown here; an earlier node may have returned no \
         items or items with other fields.",
    ),
    (
        &[],
        "unexpected token|json parse|is not valid json|valid json|syntaxerror|invalid json|\
         invalid syntax",
        "Something that should be JSON or code cannot be parsed.",
        "Look at the text that the node parses, often an expression inside of quotes or a model's answer.",
    ),
    (
        &[],
        "could not find property option|parameter|is required|required field|\
         unrecognized node type|unknown node type",
        "The node is not set up: a parameter is missing or is one that this version of the node does not have.",
        "get_node (toolset nodes) shows the parameters; set them in the workflow.",
    ),
    (
        &[],
        "out of memory|heap|out-of-memory",
        "n8n ran out of memory.",
        "Process fewer items at once (Loop Over Items), keep files out of the items, or give n8n \
         more memory.",
    ),
    (
        &[],
        "task runner|runner became unresponsive|task request timed out|task execution timed out",
        "The code did not finish in time, or used up its runner: a loop without an end or too much data.",
        "Look for a loop that does not end and process fewer items at once; else check that n8n's task runners are up.",
    ),
];

impl Cause {
    /// The cause if n8n crashed during the execution.
    pub const CRASH: Self = Self {
        cause: "n8n itself was stopped or ran out of memory while this ran.",
        advice: "Read n8n's log; if memory was the cause, process fewer items at once. Then retry.",
    };

    /// The cause of a failure; `node_type` is the type of the node that failed.
    pub fn from_failure(failed: &NodeFailure, node_type: Option<&str>) -> Self {
        let name = node_type.and_then(|kind| kind.rsplit('.').next());
        if name == Some("stopAndError") {
            return Self {
                cause: "The workflow ended itself on purpose: a Stop and Error node was reached.",
                advice: "Look at the condition that leads to it, and at the input shown here.",
            };
        }
        let description = failed.description.as_deref().unwrap_or_default();
        let text = format!("{} {description}", failed.message).to_lowercase();
        let status = failed.http_status;
        let by_status =
            |(statuses, ..): &&Rule| status.is_some_and(|status| statuses.contains(&status));
        let by_text = |(_, parts, ..): &&Rule| parts.split('|').any(|part| text.contains(part));
        let found = RULES.iter().find(by_status);
        match found.or_else(|| RULES.iter().find(by_text)) {
            Some(&(_, _, cause, advice)) => Self { cause, advice },
            None if matches!(name, Some("code" | "function" | "functionItem")) => Self {
                cause: "The code of the node threw an error.",
                advice: "Read the code at the line named here, with the input shown here.",
            },
            None => Self {
                cause: "This kind of failure is not known; read the message.",
                advice: "Compare the node's parameters (get_workflow) with its input.",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(message: &str, http_status: Option<u16>) -> NodeFailure {
        NodeFailure {
            message: message.to_owned(),
            http_status,
            ..NodeFailure::default()
        }
    }

    #[test]
    fn status_is_more_specific_than_message() {
        let cause = |message, status| Cause::from_failure(&failed(message, status), None).cause;
        assert!(cause("parameter timeout", Some(401)).contains("refuses the credentials"));
        assert!(cause("connect ECONNREFUSED 127.0.0.1:1", None).contains("cannot connect"));
        assert!(
            cause("Cannot read properties of undefined (reading 'a')", None)
                .contains("its input does not have")
        );
        assert!(cause("strange", None).contains("read the message"));
        let kind = Some("n8n-nodes-base.stopAndError");
        for (message, part) in [
            (
                "Task execution aborted because runner became unresponsive",
                "did not finish in time",
            ),
            ("Node ran out of memory", "ran out of memory"),
            (
                "Workflow is not active and cannot be executed.",
                "is not published",
            ),
        ] {
            assert!(cause(message, None).contains(part), "{message}");
        }
        let stopped = Cause::from_failure(&failed("timeout", None), kind);
        assert!(stopped.cause.contains("on purpose"));
    }
}
