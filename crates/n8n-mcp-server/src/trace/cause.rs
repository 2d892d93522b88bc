//! The likely cause of a failure, and what to do about it: rules of thumb, most telling first.

use super::failure::Failed;

/// Why it probably failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// In one sentence.
    pub(crate) cause: &'static str,
    /// The thing to try, in one sentence.
    pub(crate) advice: &'static str,
}

/// A rule: what the error must be, and what follows.
struct Rule {
    /// Statuses of HTTP.
    statuses: &'static [u16],
    /// Parts of the message or the description, in lower case, with bars; any of them.
    parts: &'static str,
    cause: Cause,
}

const fn rule(
    statuses: &'static [u16],
    parts: &'static str,
    cause: &'static str,
    advice: &'static str,
) -> Rule {
    let cause = Cause { cause, advice };
    Rule {
        statuses,
        parts,
        cause,
    }
}

const RULES: [Rule; 14] = [
    rule(
        &[],
        "credentials not found|does not have any credentials|no credentials|\
         credential with id|credentials of type",
        "The node has no credentials, or they were deleted or not shared with the workflow's project.",
        "Choose credentials in the node; list_credentials (toolset credentials) shows those that exist.",
    ),
    rule(
        &[401],
        "authorization failed|unauthorized|invalid api key|invalid_auth|\
         authentication failed|expired token|token expired|invalid_grant",
        "The service refuses the credentials of the node: wrong, expired or revoked.",
        "Renew the credentials in n8n and retry the execution.",
    ),
    rule(
        &[403],
        "forbidden|insufficient permission|insufficient scope|access denied|permission denied",
        "The credentials are valid but may not do this.",
        "Give their account or scope the permission, then retry the execution.",
    ),
    rule(
        &[429],
        "too many requests|rate limit|quota",
        "The service limits the rate of requests.",
        "Put a Wait or Loop node before it, or set batching and Retry On Fail in the node; retry later.",
    ),
    rule(
        &[408, 504],
        "timeout|timed out|etimedout|econnaborted",
        "The service did not answer in time.",
        "Retry the execution; if it happens again, ask for less at once or raise the timeout of the node.",
    ),
    rule(
        &[],
        "econnrefused|refused the connection|perhaps it is offline|enotfound|eai_again|\
         econnreset|ehostunreach|getaddrinfo|connection cannot be established|\
         connect to the server|unable to verify|certificate",
        "n8n cannot connect to the address in the node: wrong host or port, the service is down, or its certificate is not trusted.",
        "Check the URL as n8n's own machine sees it: localhost is n8n itself.",
    ),
    rule(
        &[404],
        "could not be found|not found - |resource you are requesting",
        "What the node asks for does not exist at that address.",
        "Check the URL or the id in the node's parameters against its input.",
    ),
    rule(
        &[400, 409, 415, 422],
        "bad request",
        "The service does not accept the request: a parameter is missing or has the wrong form.",
        "Compare the parameters of the node with its input; an expression may have been empty.",
    ),
    rule(
        &[500, 502, 503],
        "service was not able to process|internal server error|bad gateway|\
         service unavailable",
        "The service itself failed.",
        "Retry the execution later; set Retry On Fail in the node if it happens often.",
    ),
    rule(
        &[],
        "cannot read propert|undefined|is not a function|is not iterable|is not defined|\
         no path back|referenced node|expressionerror|can't determine which item",
        "The code or expression uses something that its input does not have.",
        "Compare the names in it with the input shown here; an earlier node may have put out nothing or another shape.",
    ),
    rule(
        &[],
        "unexpected token|json parse|is not valid json|valid json|syntaxerror|invalid json|\
         invalid syntax",
        "Something that should be JSON or code cannot be parsed.",
        "Look at the text that the node parses, often an expression inside of quotes or a model's answer.",
    ),
    rule(
        &[],
        "could not find property option|parameter|is required|required field|\
         unrecognized node type|unknown node type",
        "The node is not set up: a parameter is missing or is one that this version of the node does not have.",
        "get_node (toolset nodes) shows the parameters; set them in the workflow.",
    ),
    rule(
        &[],
        "out of memory|heap|possible out-of-memory",
        "n8n ran out of memory.",
        "Handle fewer items at once (Loop Over Items), keep files out of the items, or give n8n more memory.",
    ),
    rule(
        &[],
        "task runner|task request timed out|task execution timed out",
        "The runner that executes code did not do it in time.",
        "Check that n8n's task runners are up, or make the code shorter.",
    ),
];

impl Cause {
    /// Of executions that n8n did not survive.
    pub(crate) const OF_A_CRASH: Self = Self {
        cause: "n8n itself was ended or ran out of memory while this ran.",
        advice: "Look into n8n's log; handle fewer items at once if it was the memory. Then retry.",
    };

    /// The likely cause of what `failed` in a node of this type.
    pub(crate) fn of(failed: &Failed, node_type: Option<&str>) -> Self {
        let name = node_type.and_then(|kind| kind.rsplit('.').next());
        if name == Some("stopAndError") {
            return Self {
                cause: "The workflow ended itself on purpose: a Stop and Error node was reached.",
                advice: "Look at the condition that leads to it, and at the input shown here.",
            };
        }
        let description = failed.description.as_deref().unwrap_or_default();
        let text = format!("{} {description}", failed.message).to_lowercase();
        let by_status = |rule: &&Rule| {
            failed
                .http_status
                .is_some_and(|status| rule.statuses.contains(&status))
        };
        let by_text = |rule: &&Rule| rule.parts.split('|').any(|part| text.contains(part));
        let found = RULES
            .iter()
            .find(by_status)
            .or_else(|| RULES.iter().find(by_text));
        match found {
            Some(Rule { cause, .. }) => Self {
                cause: cause.cause,
                advice: cause.advice,
            },
            None if matches!(name, Some("code" | "function" | "functionItem")) => Self {
                cause: "The code of the node threw an error.",
                advice: "Read the code at the line named here, with the input shown here.",
            },
            None => Self {
                cause: "Not a kind of failure that is known here; the message is the best hint.",
                advice: "Compare the node's parameters (get_workflow) with its input.",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(message: &str, http_status: Option<u16>) -> Failed {
        Failed {
            message: message.to_owned(),
            http_status,
            ..Failed::default()
        }
    }

    #[test]
    fn statuses_tell_more_than_words() {
        let cause = |message, status| Cause::of(&failed(message, status), None).cause;
        assert!(cause("parameter timeout", Some(401)).contains("refuses the credentials"));
        assert!(cause("connect ECONNREFUSED 127.0.0.1:1", None).contains("cannot connect"));
        assert!(
            cause("Cannot read properties of undefined (reading 'a')", None)
                .contains("its input does not have")
        );
        assert!(cause("strange", None).contains("best hint"));
        let stopped = Cause::of(
            &failed("timeout", None),
            Some("n8n-nodes-base.stopAndError"),
        );
        assert!(stopped.cause.contains("on purpose"));
    }
}
