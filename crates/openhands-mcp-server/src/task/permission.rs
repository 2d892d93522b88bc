//! Permissions that the agent of a task asks for: what waits, asking the user, and sending the answer.

use std::mem;
use std::net::IpAddr;
use std::time::Duration;

use mcp_core::server::PreviousRounds;
use mcp_core::tool::{Call, InputRequest, ToolError, ToolErrorKind};
use serde::{Deserialize as _, Serialize};
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;
use tokio::time::Instant;
use upstream::redact::{HIDDEN, Redactor, redacted_code};
use upstream::text::{head, visible};

use crate::OpenHands;
use crate::api::tags::{ConversationTags, StopReason};
use crate::api::{AgentServer, ApiResult, Claim, Conversation, Execution, PendingAction, TaskId};
use crate::runner::Guard;

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

/// The actions that wait for respond_confirmation: all that the next approval allows, or a part of them.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Confirmation {
    /// Names exactly these actions.
    pub(crate) confirmation_id: String,
    actions: Vec<PendingAction>,
    /// Secrets in all of them that are not shown.
    hidden: Option<usize>,
    /// Not all is shown: offset of the rest for get_task_result, with part confirmation.
    next_offset: Option<u64>,
}

impl Confirmation {
    pub(crate) async fn read(server: &AgentServer, id: TaskId) -> ApiResult<Self> {
        Ok(Self::new(server.pending_actions(id).await?))
    }

    fn new(mut actions: Vec<PendingAction>) -> Self {
        let mut hidden = 0;
        let ids: Vec<&str> = actions.iter().map(|action| action.id.as_str()).collect();
        let mut id = TaskId::from_key(&format!("confirmation {ids:?}")).simple();
        id.truncate(ID_CHARS);
        for action in &mut actions {
            // Before the redaction, which would leave out what no screen shows.
            show_members(&mut action.arguments);
            action.tool = visible(&action.tool);
        }
        let mut texts = String::new();
        for value in actions.iter().flat_map(|action| action.arguments.values()) {
            add_texts(value, &mut texts);
        }
        let names = Names {
            name: "",
            texts: &texts,
        };
        for action in &mut actions {
            let mut arguments = Value::Object(mem::take(&mut action.arguments));
            let mut redacted = arguments.clone();
            Redactor::new(true).json(&mut redacted);
            hidden += hide_words(&mut arguments, &redacted, &names);
            if let Value::Object(arguments) = arguments {
                action.arguments = arguments;
            }
        }
        Self {
            confirmation_id: id,
            actions,
            hidden: (hidden > 0).then_some(hidden),
            next_offset: None,
        }
    }

    /// The actions from `offset` on, as far as they fit into a report.
    pub(crate) fn at_offset(&self, offset: u64) -> Self {
        self.part(
            usize::try_from(offset).unwrap_or(usize::MAX),
            MAX_SHOWN_BYTES,
        )
    }

    /// The part that begins at `offset`. Offsets count the bytes of the names and arguments, and some for the members
    /// around them.
    fn part(&self, offset: usize, max: usize) -> Self {
        let window = offset..offset.saturating_add(max);
        let (mut at, mut actions) = (0, Vec::new());
        for action in &self.actions {
            let mut arguments = Map::new();
            let is_shown = window.contains(&at);
            at += action.tool.len() + MEMBER_BYTES;
            for (name, value) in &action.arguments {
                let has_start = window.contains(&at);
                at += name.len() + MEMBER_BYTES;
                let text = text_of(value);
                let border = |border: usize| text.floor_char_boundary(border.saturating_sub(at));
                let (from, to) = (border(window.start), border(window.end));
                if has_start && to == text.len() && from == 0 {
                    arguments.insert(name.clone(), value.clone());
                } else if from < to {
                    let part = text.get(from..to).unwrap_or_default();
                    arguments.insert(name.clone(), part.into());
                }
                at += text.len();
            }
            if is_shown || !arguments.is_empty() {
                let (id, tool) = (action.id.clone(), action.tool.clone());
                actions.push(PendingAction {
                    id,
                    tool,
                    arguments,
                });
            }
        }
        Self {
            confirmation_id: self.confirmation_id.clone(),
            actions,
            hidden: self.hidden,
            next_offset: (window.end < at).then_some(window.end as u64),
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
                let value = text_of(value);
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

fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Adds all texts of a value, one below the other.
fn add_texts(value: &Value, texts: &mut String) {
    match value {
        Value::String(text) => texts.extend([text, "\n"]),
        Value::Array(all) => all.iter().for_each(|one| add_texts(one, texts)),
        Value::Object(all) => all.values().for_each(|one| add_texts(one, texts)),
        _ => {}
    }
}

/// Shows characters that no screen shows by their number, also in names.
fn show_all(value: &mut Value) {
    match value {
        Value::String(text) => *text = visible(text),
        Value::Array(all) => all.iter_mut().for_each(show_all),
        Value::Object(all) => show_members(all),
        _ => {}
    }
}

fn show_members(all: &mut Map<String, Value>) {
    let members = mem::take(all).into_iter();
    all.extend(members.map(|(name, mut value)| {
        show_all(&mut value);
        (visible(&name), value)
    }));
}

/// The names by which a hidden value may be used.
struct Names<'a> {
    /// The member that has the value.
    name: &'a str,
    /// All texts that are allowed with it.
    texts: &'a str,
}

/// Parts of names whose values are no places, whatever they look like.
const SECRET_NAMES: &str = "pass pwd secret token credential apikey accesskey privatekey jwt";

impl Names<'_> {
    /// Whether `value` after the text `before` is nothing but a secret: no text has its name for anything but this value,
    /// to use it as something else.
    fn tell_secret(&self, before: &str, value: &str) -> bool {
        let is_letter = |c: char| c.is_alphanumeric() || c == '_';
        let named = before.trim_end_matches(|c| !is_letter(c));
        let name = named.rsplit(|c| !is_letter(c) && c != '-').next();
        let (name, own) = match name.unwrap_or_default().trim_start_matches('-') {
            "" => (self.name, None),
            name => (name, Some(format!("{}{value}", &before[named.len()..]))),
        };
        let is_use = |(at, _): (usize, &str)| {
            let (before, after) = (&self.texts[..at], &self.texts[at + name.len()..]);
            // Of another name: `password-reset`, but not `${password-reset}`.
            let is_inner = before.ends_with(is_letter)
                || after.starts_with(is_letter)
                || !before.ends_with(['{', '$', '!', '#'])
                    && after
                        .strip_prefix('-')
                        .is_some_and(|after| after.starts_with(is_letter));
            !is_inner && own.as_ref().is_none_or(|own| !after.starts_with(own))
        };
        let letters = name.chars().filter(|c| c.is_alphanumeric());
        let letters: String = letters.map(|c| c.to_ascii_lowercase()).collect();
        SECRET_NAMES.split(' ').any(|part| letters.contains(part))
            && !self.texts.match_indices(name).any(is_use)
    }
}

/// Takes over what `redacted` hides, if that is nothing but words: what has the shape of a secret may be a command
/// (`cookie=a=b; rm -rf x`). Returns the number of hidden words.
fn hide_words(value: &mut Value, redacted: &Value, names: &Names<'_>) -> usize {
    match (value, redacted) {
        (Value::String(text), Value::String(redacted)) if text != redacted => {
            let before = text.matches(HIDDEN).count();
            *text = match hides_no_command(text, redacted, names) {
                true => redacted.clone(),
                false => {
                    let lines = text.split_inclusive('\n').map(|line| {
                        let redacted = redacted_code(line);
                        match hides_no_command(line, &redacted, names) {
                            true => redacted,
                            false => line.into(),
                        }
                    });
                    lines.collect()
                }
            };
            text.matches(HIDDEN).count() - before
        }
        (Value::Array(all), Value::Array(redacted)) => {
            let all = all.iter_mut().zip(redacted);
            all.map(|(one, redacted)| hide_words(one, redacted, names))
                .sum()
        }
        (Value::Object(all), Value::Object(redacted)) => {
            let all = all.iter_mut().zip(redacted.values());
            all.map(|((name, one), redacted)| hide_words(one, redacted, &Names { name, ..*names }))
                .sum()
        }
        _ => 0,
    }
}

/// Returns true if all that `redacted` hides is of one word each, and no place: a command may use that later by its name
/// (`TOKEN=h.example; curl $TOKEN`). What has an `@` or a dot, is no plain host, has a secret's name and is used by nothing
/// is no place.
fn hides_no_command(text: &str, redacted: &str, names: &Names<'_>) -> bool {
    let is_word = |value: &str, before: &str| {
        let is_part = |c: char| c.is_alphanumeric() || "_-.+/=~*%@,".contains(c);
        value.chars().all(is_part)
            && (!is_place(value)
                || !is_path(value) && !is_host(value) && names.tell_secret(before, value))
    };
    let mut parts = redacted.split(HIDDEN).peekable();
    let mut before = parts.next().unwrap_or_default();
    let mut rest = text.strip_prefix(before);
    while let (Some(text), Some(part)) = (rest, parts.next()) {
        let found = match parts.peek() {
            Some(_) => text.split_once(part),
            None => text.strip_suffix(part).map(|value| (value, "")),
        };
        rest = found
            .filter(|(value, _)| is_word(value, before))
            .map(|(_, rest)| rest);
        before = part;
    }
    rest == Some("")
}

/// Characters of the end of a host's or file's name, and of a random word.
const MAX_END_CHARS: usize = 10;
const MIN_RANDOM_CHARS: usize = 16;

/// Returns true if the value may be a host, an address or a path, and not a secret by its shape.
fn is_place(value: &str) -> bool {
    if redacted_code(value) != value {
        return false;
    }
    let ends_as_name = |part: &str| {
        let end = part.rsplit_once('.').map_or("", |(_, end)| end);
        let is_end = (1..=MAX_END_CHARS).contains(&end.len());
        (is_end && end.chars().all(char::is_alphabetic)) || part.parse::<IpAddr>().is_ok()
    };
    value.starts_with(['/', '~', '.'])
        || value.contains(['@', '*'])
        || value.split('/').any(ends_as_name)
        || value.contains('/') && !value.split('/').any(is_random)
}

/// Returns true if the value is a path or the number of an address, which no secret is.
fn is_path(value: &str) -> bool {
    value.starts_with(['~', '.']) || value.contains(['/', '*']) || value.parse::<IpAddr>().is_ok()
}

/// Returns true if the value is a plain name of a host, which a program may take from its environment.
fn is_host(value: &str) -> bool {
    let value = value.strip_suffix('.').unwrap_or(value);
    let is_label = |label: &str| {
        let is_part = |c: char| c.is_alphanumeric() || "_-".contains(c);
        !label.is_empty() && label.chars().all(is_part)
    };
    value.split('.').all(is_label)
        && value
            .rsplit_once('.')
            .is_some_and(|(_, end)| end.chars().all(char::is_alphabetic))
}

/// Returns true if a word is as those of a key: long, of letters and digits, or with letters of both cases mixed.
fn is_random(word: &str) -> bool {
    let has = |is_it: fn(&u8) -> bool| word.as_bytes().iter().any(is_it);
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    let turns = word.as_bytes().windows(2);
    let turns = turns.filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    word.len() >= MIN_RANDOM_CHARS && (is_mixed || turns.count() > 2)
}

const MAX_REASON_BYTES: usize = 2_000;
const DEFAULT_REASON: &str = "The user refused it.";

/// Polls after an answer was sent, and their interval.
const MAX_ANSWER_POLLS: u32 = 150;
const ANSWER_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The answer to an agent that asks for a permission.
pub(crate) struct PermissionAnswer {
    /// Names the actions that it allows or refuses.
    pub(crate) confirmation_id: String,
    pub(crate) accept: bool,
    /// The reason of a refusal.
    pub(crate) reason: String,
}

impl PermissionAnswer {
    pub(crate) fn new(confirmation_id: &str, accept: bool, reason: Option<&str>) -> Self {
        let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
        Self {
            confirmation_id: confirmation_id.to_owned(),
            accept,
            reason: head(reason.unwrap_or(DEFAULT_REASON), MAX_REASON_BYTES),
        }
    }
}

/// Asks the user for the permission, if the client supports it: for what waits now, or only for the actions that
/// `confirmation_id` names. Returns `None` if the client does not support it, or if the user closes the question; the
/// agent waits on.
///
/// # Errors
/// The agent does not wait for a permission, the agent server does not answer, or the call has to end
/// so that its client can ask the user.
pub(crate) async fn ask_user(
    server: &AgentServer,
    id: TaskId,
    confirmation_id: Option<&str>,
    call: &Call,
) -> Result<Option<PermissionAnswer>, ToolError> {
    if !call.capabilities().elicitation {
        return Ok(None);
    }
    let (_, pending) = waiting(server, id, confirmation_id).await?;
    // The key names the actions: a call that is repeated with an answer must not use it for the next
    // ones.
    let key = format!("permission-{}", pending.confirmation_id);
    let schema = json!({
        "type": "object",
        "properties": {
            "allow": {"type": "boolean", "title": "Allow it?"},
            "reason": {"type": "string", "title": "If not: why, or what instead"},
        },
        "required": ["allow"],
    });
    let question = InputRequest::elicit(&pending.question(id), schema);
    let rounds = call.extension::<PreviousRounds>();
    if !call.waits_for_answers() && rounds.is_none_or(|rounds| !rounds.answers.contains_key(&key)) {
        return Err(call.require_input(&[(&*key, question)], json!(id))?);
    }
    let answer = call.ask(&key, question).await?;
    Ok(parse_answer(&pending.confirmation_id, &answer))
}

/// The task that a call asked about when it ended, if this one repeats it with the answer.
pub(crate) fn task_of_question(call: &Call) -> Option<TaskId> {
    let rounds = call.extension::<PreviousRounds>()?;
    TaskId::deserialize(&rounds.memo).ok()
}

/// Sends the answer to the agent, if it still waits for the permission for these actions.
///
/// # Errors
/// The agent does not wait for a permission or waits for another one, or the agent server does not answer.
pub(crate) async fn send_answer(
    service: &OpenHands,
    server: &AgentServer,
    id: TaskId,
    answer: &PermissionAnswer,
) -> Result<(), ToolError> {
    let lock = service.runner.locks.lock(id).await;
    // The agent server takes an answer for whatever waits, so no other server may answer the same.
    let claim = TaskId::from_key(&format!("{id} {}", answer.confirmation_id));
    let until = Instant::now() + ANSWER_POLL_INTERVAL * MAX_ANSWER_POLLS;
    let claim = Claim::take(server, claim, until).await?;
    let claim = claim.ok_or_else(|| {
        ToolError::conflict(
            "Another call answers this just now, or an answer without a response may still arrive, so this one was not \
             sent. Look at get_task_status; if the task still waits, answer again in two minutes.",
        )
    })?;
    let sent = send_claimed(service, server, id, answer, lock).await;
    claim.release_after(&sent);
    sent
}

/// Sends the answer, while no other call does.
async fn send_claimed(
    service: &OpenHands,
    server: &AgentServer,
    id: TaskId,
    answer: &PermissionAnswer,
    lock: Guard,
) -> Result<(), ToolError> {
    let (task, pending) = waiting(server, id, Some(&answer.confirmation_id)).await?;
    // A permission starts a new run with the rest of the time; a refusal ends the run.
    let mut tags = ConversationTags::from_task(&task);
    if answer.accept {
        // The agent server counts the steps of each run from nothing.
        let done = server.count_actions(id).await?;
        let done = done.saturating_sub(pending.actions.len() as u64);
        let used = tags.used(&task, done, server.now());
        let limits = tags.limits(&task);
        if let Some(limit) = limits.reached(&used) {
            let reason = StopReason::Limit(limit);
            service.runner.stop(server, id, reason, Some(lock)).await?;
            return Ok(());
        }
        tags.set_limits(&limits);
        tags.begin_run(server.now());
        service.runner.watch(id);
    }
    server.set_tags(id, &tags).await?;
    // That may have taken long, and the agent server takes an answer for whatever waits when it comes.
    waiting(server, id, Some(&pending.confirmation_id)).await?;
    let sent = server.respond(id, answer.accept, &answer.reason).await;
    // Before the lock is released: the next answer must not come before this one has its effect.
    let may_have_arrived = match &sent {
        Ok(()) => true,
        Err(failure) => failure.is_ambiguous(),
    };
    let has_effect = may_have_arrived && !still_waits(server, id, &pending.confirmation_id).await;
    drop(lock);
    if tags.callback().is_some() {
        service.callbacks.expect(id);
    }
    match sent {
        // It has arrived, only its response was lost.
        Err(failure) if !has_effect => Err(failure.into()),
        _ => Ok(()),
    }
}

/// Waits briefly until the state of a task reflects the answer. Returns true if it still waits for the permission
/// for these actions.
async fn still_waits(server: &AgentServer, id: TaskId, confirmation_id: &str) -> bool {
    for _ in 0..MAX_ANSWER_POLLS {
        match waiting(server, id, Some(confirmation_id)).await {
            Err(error) if error.kind() == ToolErrorKind::Conflict => return false,
            _ => tokio::time::sleep(ANSWER_POLL_INTERVAL).await,
        }
    }
    true
}

/// The task and what it waits for.
///
/// # Errors
/// It does not wait for a permission, or not for the one that `confirmation_id` names.
async fn waiting(
    server: &AgentServer,
    id: TaskId,
    confirmation_id: Option<&str>,
) -> Result<(Conversation, Confirmation), ToolError> {
    let task = server.conversation(id).await?;
    if task.execution_status != Execution::WaitingForConfirmation {
        return Err(ToolError::conflict(
            "The task is not waiting for a permission. get_task_status shows what it does.",
        ));
    }
    let pending = Confirmation::read(server, id).await?;
    match confirmation_id {
        Some(given) if given != pending.confirmation_id => Err(pending.conflict()),
        _ => Ok((task, pending)),
    }
}

/// Parses the user's answer. `None` if the user closed the question.
fn parse_answer(confirmation_id: &str, answer: &Value) -> Option<PermissionAnswer> {
    let content = &answer["content"];
    let accept = match answer["action"].as_str() {
        Some("accept") => content["allow"] == true,
        Some("decline") => false,
        _ => return None,
    };
    let reason = content["reason"].as_str();
    Some(PermissionAnswer::new(confirmation_id, accept, reason))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pending(actions: &[(&str, Value)]) -> Confirmation {
        let actions = actions.iter().enumerate().map(|(at, (tool, arguments))| {
            let arguments = arguments.as_object().unwrap().clone();
            PendingAction {
                id: format!("event-{at}"),
                tool: (*tool).to_owned(),
                arguments,
            }
        });
        Confirmation::new(actions.collect())
    }

    /// The texts of all pages, by action and argument.
    fn pages(pending: &Confirmation, max: usize) -> Vec<(String, String, String)> {
        let mut whole: Vec<(String, String, String)> = Vec::new();
        let mut next = Some(0);
        while let Some(offset) = next {
            let part = pending.part(offset, max);
            let rest = part.next_offset.map(|rest| usize::try_from(rest).unwrap());
            assert!(rest.is_none_or(|rest| rest > offset), "{rest:?} {offset}");
            for action in part.actions {
                for (name, value) in action.arguments {
                    let text = text_of(&value);
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
    fn nothing_but_words_is_hidden_and_not_without_a_sign() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let command = format!("rm -rf x\recho hi \u{202e}\u{1b}[2K {token}");
        let several = format!("TOKEN='a; b'\necho {token}\n{key}");
        for (given, expected) in [
            (&*command, "rm -rf x\\u{d}echo hi \\u{202e}\\u{1b}[2K ***"),
            (&*several, "TOKEN='a; b'\necho ***\n***"),
            // What has the shape of a secret may be a command.
            ("true cookie=a=b; rm -rf x", ""),
            ("export TOKEN=\"$(rm -rf x)\"", ""),
            ("curl http://u:$(id)@h", ""),
            ("echo -----BEGIN PRIVATE KEY-----; rm -rf x", ""),
            // A value may be used by its name.
            ("SECRET_HOST=evil.example.com; curl $SECRET_HOST", ""),
            ("TOKEN=10.0.0.7; curl $TOKEN", ""),
            ("TOKEN=a1b2c3d4e5f6a7b8c9.evil.test/x; curl $TOKEN", ""),
            ("KEY_DIR=/home; rm -rf $KEY_DIR", ""),
            ("TOKEN=../..; rm -rf $TOKEN", ""),
            ("TOKEN=me@h; ssh $TOKEN", ""),
            ("PASSWORD=*; rm -rf $PASSWORD", ""),
            ("PASSWORD=src/lib; rm -rf $PASSWORD", ""),
            ("docker build --secret id=npm,src=/root/.npmrc .", ""),
            ("PGPASSWORD=/var/x psql", ""),
            ("curl --key client.pem https://h.example", ""),
            ("DB_HOST=db.example.com ./run", ""),
            ("TOKEN=x9; ls", "TOKEN=***; ls"),
            // Nothing uses it by its name.
            ("export DB_PASSWORD=p@ss.w0rd", "export DB_PASSWORD=***"),
            (
                "DB_PASSWORD=p@ss.w0rd a; DB_PASSWORD=p@ss.w0rd b",
                "DB_PASSWORD=*** a; DB_PASSWORD=*** b",
            ),
            (
                "wget --password=p@ss.w0rd h/password-reset",
                "wget --password=*** h/password-reset",
            ),
            ("password=p@ss.w0rd; ssh ${password-x}", ""),
            // A program may take a host from a variable.
            ("API_TOKEN=Evil.example ./run", ""),
            ("wget --password=S3.cret h", ""),
            (
                "curl -d '{\"password\":\"p@ss.w0rd\",\"host\":\"db.example.com\"}' h",
                "curl -d '{\"password\":\"***\",\"host\":\"db.example.com\"}' h",
            ),
            (
                "API_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY ls; TOKEN=x9",
                "API_KEY=*** ls; TOKEN=***",
            ),
        ] {
            let expected = if expected.is_empty() { given } else { expected };
            let arguments = json!({"command": given, "apiToken": "me@h.example"});
            let pending = pending(&[("terminal", arguments)]);
            let shown = pending.at_offset(0);
            let expected = json!({"command": expected, "apiToken": "***"});
            assert_eq!(json!(shown.actions[0].arguments), expected);
            assert_eq!(
                shown.hidden,
                Some(expected.to_string().matches("***").count())
            );
            let question = pending.question(TaskId::from_key("a"));
            assert!(question.contains("as ***"), "{question}");
        }
        for (given, expected) in [
            (
                json!({"name": "DB_PASSWORD", "value": "hunter2"}),
                json!({"name": "DB_PASSWORD", "value": "***"}),
            ),
            (
                json!({"env": {"DB_PASSWORD": "p@ss.w0rd"}}),
                json!({"env": {"DB_PASSWORD": "***"}}),
            ),
        ] {
            let pending = pending(&[("terminal", given)]);
            assert_eq!(json!(pending.actions[0].arguments), expected);
        }
    }

    #[test]
    fn question_shows_every_line_and_says_if_there_is_more() {
        let command = "a\n2. terminal\n  command: ls";
        let pending_one = pending(&[("terminal", json!({"a\r\u{2028}b": 1, "command": command}))]);
        let question = pending_one.question(TaskId::from_key("a"));
        let lines = "\n1. terminal\n  a\\u{d}\\u{2028}b: 1\n  command:\n    a\n    2. terminal\n      command: ls\n";
        assert!(question.ends_with(lines), "{question}");
        let long = "x".repeat(MAX_QUESTION_BYTES);
        let question = pending(&[("t", json!({"command": long}))]).question(TaskId::from_key("a"));
        assert!(question.contains("NOT ALL IS SHOWN"));
    }

    #[test]
    fn only_explicit_consent_allows_the_action() {
        let said =
            |answer: Value| parse_answer("a", &answer).map(|answer| (answer.accept, answer.reason));
        let refused = DEFAULT_REASON.to_owned();
        let yes = said(json!({"action": "accept", "content": {"allow": true}}));
        assert_eq!(yes, Some((true, refused.clone())));
        let no =
            said(json!({"action": "accept", "content": {"allow": false, "reason": " not it "}}));
        assert_eq!(no, Some((false, "not it".to_owned())));
        for no in [json!({"action": "accept"}), json!({"action": "decline"})] {
            assert_eq!(said(no), Some((false, refused.clone())));
        }
        for none in [json!({"action": "cancel"}), json!({}), Value::Null] {
            assert_eq!(said(none), None);
        }
    }
}
