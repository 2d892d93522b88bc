//! The actions that wait for a permission: all of them, each whole.

use mcp_core::tool::ToolError;
use serde::Serialize;
use serde_json::{Map, Value};
use upstream::redact::Redactor;
use upstream::text::{page, visible};

use crate::api::{AgentServer, ApiResult, PendingAction, TaskId};

/// Bytes of the actions in a report.
const MAX_SHOWN_BYTES: usize = 5_000;
/// Bytes of a question to the user, who cannot ask for the rest.
const MAX_QUESTION_BYTES: usize = 30_000;
/// Bytes of the actions in an error.
const MAX_ERROR_BYTES: usize = 3_000;
/// Characters of the id of a batch.
const ID_CHARS: usize = 16;
/// Bytes for the members around an argument.
const MEMBER_BYTES: usize = 30;

/// All actions that the next approval allows.
#[derive(Clone, Debug)]
pub(crate) struct PendingActions {
    id: String,
    actions: Vec<ShownAction>,
    /// Secrets in them that are not shown.
    hidden: Option<u32>,
}

/// The actions that wait for respond_confirmation.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Confirmation {
    /// For respond_confirmation.
    pub(crate) confirmation_id: String,
    /// All that is allowed or refused at once.
    actions: Vec<ShownAction>,
    /// Parts shown as ***.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<u32>,
    /// Not all is shown: offset of the rest for get_task_result, with part confirmation.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ShownAction {
    tool: String,
    arguments: Map<String, Value>,
}

impl PendingActions {
    pub(crate) async fn read(server: &AgentServer, id: TaskId) -> ApiResult<Self> {
        Ok(Self::new(server.pending_actions(id).await?))
    }

    fn new(actions: Vec<PendingAction>) -> Self {
        let redactor = Redactor::new(true);
        let ids: Vec<&str> = actions.iter().map(|action| action.id.as_str()).collect();
        let mut id = TaskId::from_key(&format!("confirmation {ids:?}"))
            .to_string()
            .replace('-', "");
        id.truncate(ID_CHARS);
        let actions = actions.into_iter().map(|action| {
            let mut arguments = Value::Object(action.arguments);
            // Before the redaction, which would leave out what no screen shows.
            show_all(&mut arguments);
            redactor.json(&mut arguments);
            let arguments = match arguments {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            };
            ShownAction {
                tool: visible(&action.tool),
                arguments,
            }
        });
        Self {
            id,
            actions: actions.collect(),
            hidden: redactor.hidden(),
        }
    }

    /// Names exactly these actions.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The actions from `offset` on, as far as they fit into a report.
    pub(crate) fn at_offset(&self, offset: u64) -> Confirmation {
        self.part(
            usize::try_from(offset).unwrap_or(usize::MAX),
            MAX_SHOWN_BYTES,
        )
    }

    /// The offset counts the bytes of the arguments, and one for each action.
    fn part(&self, offset: usize, max: usize) -> Confirmation {
        let (mut at, mut room, mut next) = (0, max, None);
        let mut actions: Vec<ShownAction> = Vec::new();
        'actions: for action in &self.actions {
            let mut shown = ShownAction {
                tool: action.tool.clone(),
                arguments: Map::new(),
            };
            let mut is_shown = at >= offset;
            if is_shown && room == 0 && at > offset {
                next = Some(at);
                break;
            }
            at += 1;
            if is_shown {
                room = room.saturating_sub(action.tool.len() + MEMBER_BYTES);
            }
            for (name, value) in &action.arguments {
                let text = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let end = at + text.len();
                if end > offset || (end == offset && text.is_empty()) {
                    // A page shows something, however small it is.
                    if room == 0 && at > offset {
                        next = Some(at.max(offset));
                        actions.extend(is_shown.then_some(shown));
                        break 'actions;
                    }
                    is_shown = true;
                    let from = offset.saturating_sub(at);
                    room = room
                        .saturating_sub(name.len() + MEMBER_BYTES)
                        .max(char::MAX.len_utf8());
                    let (part, rest) = page(&text, from, room);
                    let is_whole = from == 0 && rest.is_none();
                    shown.arguments.insert(
                        name.clone(),
                        match is_whole {
                            true => value.clone(),
                            false => part.into(),
                        },
                    );
                    room = room.saturating_sub(part.len());
                    if let Some(rest) = rest {
                        next = Some(at + rest);
                        actions.push(shown);
                        break 'actions;
                    }
                }
                at = end;
            }
            actions.extend(is_shown.then_some(shown));
        }
        Confirmation {
            confirmation_id: self.id.clone(),
            actions,
            hidden: self.hidden,
            next_offset: next.map(|next| next as u64),
        }
    }

    /// The question for the user: the actions as text. Lines of an argument are indented, so that no argument looks
    /// like another action.
    pub(crate) fn question(&self, id: TaskId) -> String {
        let shown = self.part(0, MAX_QUESTION_BYTES);
        let mut text = format!("The agent of task {id} asks whether it may do all of this:\n");
        for (number, action) in shown.actions.iter().enumerate() {
            text.push_str(&format!("\n{}. {}\n", number + 1, action.tool));
            for (name, value) in &action.arguments {
                let value = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let name = name.replace('\n', " ");
                text.push_str(&match value.contains('\n') {
                    true => format!("  {name}:\n    {}\n", value.replace('\n', "\n    ")),
                    false => format!("  {name}: {value}\n"),
                });
            }
        }
        if self.hidden.is_some() {
            text.push_str("\nSecrets in it are shown as ***.\n");
        }
        if let Some(next) = shown.next_offset {
            text.push_str(&format!(
                "\nNOT ALL IS SHOWN: get_task_result with part confirmation and offset {next} has the \
                 rest. Refuse it unless you have read that.\n"
            ));
        }
        text
    }

    /// The error for an answer that names other actions.
    pub(crate) fn conflict(&self) -> ToolError {
        let shown = serde_json::to_string(&self.part(0, MAX_ERROR_BYTES)).unwrap_or_default();
        ToolError::conflict(format!(
            "confirmation_id does not name what the task waits for now, and nothing was allowed or refused. \
             Read this, and answer with its confirmation_id: {shown}"
        ))
    }
}

/// Shows characters that no screen shows, and returns of the carriage, by their number.
fn show_all(value: &mut Value) {
    match value {
        Value::String(text) => *text = visible(text).replace('\r', "\\u{d}"),
        Value::Array(all) => all.iter_mut().for_each(show_all),
        Value::Object(all) => all.values_mut().for_each(show_all),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pending(actions: &[(&str, Value)]) -> PendingActions {
        let actions = actions.iter().enumerate().map(|(at, (tool, arguments))| {
            let arguments = arguments.as_object().unwrap().clone();
            PendingAction {
                id: format!("event-{at}"),
                tool: (*tool).to_owned(),
                arguments,
            }
        });
        PendingActions::new(actions.collect())
    }

    /// The texts of all pages, by action and argument.
    fn pages(pending: &PendingActions, max: usize) -> Vec<(String, String, String)> {
        let mut whole: Vec<(String, String, String)> = Vec::new();
        let mut next = Some(0);
        while let Some(offset) = next {
            let part = pending.part(offset, max);
            let rest = part.next_offset.map(|rest| usize::try_from(rest).unwrap());
            assert!(rest.is_none_or(|rest| rest > offset), "{rest:?} {offset}");
            for action in part.actions {
                for (name, value) in action.arguments {
                    let text = value.as_str().map_or(value.to_string(), str::to_owned);
                    match whole.last_mut() {
                        Some(last) if last.0 == action.tool && last.1 == name => {
                            last.2.push_str(&text);
                        }
                        _ => whole.push((action.tool.clone(), name, text)),
                    }
                }
            }
            next = rest;
        }
        whole
    }

    #[test]
    fn all_pages_are_all_actions() {
        let long = "é\"\n".repeat(400);
        let actions = [
            ("first", json!({"command": long, "n": 1, "x": ""})),
            ("second", json!({})),
            (
                "third",
                json!({"deep": {"list": [1, 2, "three"]}, "last": "touch HIDDEN"}),
            ),
        ];
        let pending = pending(&actions);
        let all = pages(&pending, 1_000_000);
        assert_eq!(all[0], ("first".into(), "command".into(), long.clone()));
        assert_eq!(all.last().unwrap().2, "touch HIDDEN");
        for max in [1, 40, 100, 333, 1_000] {
            assert_eq!(pages(&pending, max), all, "{max}");
        }
        let whole = pending.part(0, 1_000_000);
        let shown = json!(whole.actions);
        assert_eq!(shown[2]["arguments"], actions[2].1);
        assert_eq!(shown[1], json!({"tool": "second", "arguments": {}}));
        assert_eq!(whole.next_offset, None);
    }

    #[test]
    fn id_names_the_actions() {
        let one = ("terminal", json!({"command": "a"}));
        let ids = [
            &[][..],
            std::slice::from_ref(&one),
            &[one.clone(), one.clone()],
        ]
        .map(|of| pending(of).id);
        assert!(ids.iter().all(|id| id.len() == ID_CHARS));
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    }

    #[test]
    fn nothing_is_hidden_without_a_sign() {
        let command =
            "rm -rf x\recho hi \u{202e}\u{1b}[2K ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let pending = pending(&[("terminal", json!({"command": command, "password": "x9"}))]);
        let shown = pending.at_offset(0);
        assert_eq!(shown.hidden, Some(2));
        let arguments = &shown.actions[0].arguments;
        let command = arguments["command"].as_str().unwrap();
        assert_eq!(command, "rm -rf x\\u{d}echo hi \\u{202e}\\u{1b}[2K ***");
        assert_eq!(arguments["password"], "***");
        let question = pending.question(TaskId::from_key("a"));
        assert!(question.contains("as ***"), "{question}");
    }

    #[test]
    fn question_shows_every_line_and_says_if_there_is_more() {
        let command = "a\n2. terminal\n  command: ls";
        let pending_one = pending(&[("terminal", json!({"command": command}))]);
        let question = pending_one.question(TaskId::from_key("a"));
        let lines = "\n1. terminal\n  command:\n    a\n    2. terminal\n      command: ls\n";
        assert!(question.ends_with(lines), "{question}");
        let long = "x".repeat(MAX_QUESTION_BYTES);
        let question = pending(&[("t", json!({"command": long}))]).question(TaskId::from_key("a"));
        assert!(question.contains("NOT ALL IS SHOWN"));
    }
}
