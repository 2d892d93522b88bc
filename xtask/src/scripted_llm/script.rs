//! Finds the next step of the script in a conversation.

use std::mem;
use std::time::Duration;

use serde_json::Value;

/// An action of the model, one per turn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// `RUN: command`, or `LINES: one || two` for a command of several lines: call the terminal.
    Run(String),
    /// `PAR: one || two`: several calls of the terminal in one turn.
    Parallel(Vec<String>),
    /// `LIE: summary || command`: call the terminal, and describe the call with another text.
    Lie(String, String),
    /// `WRITE: path text`: create a file.
    Write(String, String),
    /// `SAY: text`: plain text and no call.
    Say(String),
    /// `HTTP: 500`: fail with this status.
    Http(u16),
    /// `FINISH: text`: call the tool that ends the task.
    Finish(String),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Turn {
    /// The delay before the response (`SLEEP: seconds`).
    pub(crate) delay: Duration,
    pub(crate) step: Step,
}

/// Returns the next turn in this conversation; `None` if no prompt has a directive.
///
/// The script is the last user message with directives. Each message of the assistant since then has
/// taken one step; after the last step comes `FINISH: done`.
pub(crate) fn next(messages: &[Value]) -> Option<Turn> {
    let mut last_first = messages.iter().enumerate().rev();
    let (at, script) = last_first.find_map(|(at, message)| {
        let content = (message["role"] == "user").then(|| text(&message["content"]))?;
        Some((at, parse(&content)?))
    })?;
    let since = messages[at..].iter();
    let taken = since.filter(|message| message["role"] == "assistant");
    let done = Turn {
        delay: Duration::ZERO,
        step: Step::Finish("done".into()),
    };
    Some(script.into_iter().nth(taken.count()).unwrap_or(done))
}

/// Returns the text of a message: a string or a list of parts.
fn text(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    let parts = parts.filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(parts).collect()
}

/// Parses the script of a prompt; `None` if it has no directive.
fn parse(prompt: &str) -> Option<Vec<Turn>> {
    let mut turns = Vec::new();
    let mut delay = Duration::ZERO;
    for (word, rest) in prompt
        .lines()
        .filter_map(|line| line.trim().split_once(':'))
    {
        let rest = rest.trim();
        if word == "SLEEP" {
            let seconds = rest.parse().ok();
            let pause = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            delay += pause.unwrap_or_default();
        } else if let Some(step) = step(word, rest) {
            let delay = mem::take(&mut delay);
            turns.push(Turn { delay, step });
        }
    }
    let is_script = !turns.is_empty() || !delay.is_zero();
    let step = Step::Finish("done".into());
    turns.push(Turn { delay, step });
    is_script.then_some(turns)
}

fn step(word: &str, rest: &str) -> Option<Step> {
    let text = rest.to_owned();
    Some(match word {
        "RUN" => Step::Run(text),
        "LINES" => Step::Run(parts(rest).join("\n")),
        "PAR" => Step::Parallel(parts(rest).into_iter().map(str::to_owned).collect()),
        "LIE" => {
            let (summary, command) = rest.split_once(" || ")?;
            Step::Lie(summary.to_owned(), command.to_owned())
        }
        "WRITE" => {
            let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
            Step::Write(path.to_owned(), text.to_owned())
        }
        "SAY" => Step::Say(text),
        "HTTP" => {
            let status = rest.parse().ok();
            Step::Http(status.filter(|status| (400..600).contains(status))?)
        }
        "FINISH" => Step::Finish(text),
        _ => return None,
    })
}

fn parts(rest: &str) -> Vec<&str> {
    rest.split(" || ").collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The turns that follow this prompt, each with its delay in milliseconds.
    fn turns(prompt: &str) -> Vec<(u128, Step)> {
        let mut messages = vec![
            json!({"role": "system", "content": "RUN: not a script"}),
            json!({"role": "user", "content": prompt}),
        ];
        let mut turns = Vec::new();
        while !matches!(turns.last(), Some((_, Step::Finish(_)))) {
            let Turn { delay, step } = next(&messages).unwrap();
            turns.push((delay.as_millis(), step));
            messages.push(json!({"role": "assistant", "content": "x"}));
            messages.push(json!({"role": "tool", "content": "RUN: not a script either"}));
        }
        turns
    }

    #[test]
    fn steps_are_taken_in_order() {
        assert_eq!(
            turns("Please:\n  RUN: echo a: b\nWRITE: a.txt some text\nSAY: hi"),
            [
                (0, Step::Run("echo a: b".into())),
                (0, Step::Write("a.txt".into(), "some text".into())),
                (0, Step::Say("hi".into())),
                (0, Step::Finish("done".into())),
            ]
        );
    }

    #[test]
    fn a_step_may_have_several_commands_or_lines() {
        let turns = turns("PAR: a || b | c\nLIE: x || d || e\nLINES: f || g");
        let steps: Vec<_> = turns.into_iter().map(|(_, step)| step).collect();
        let parallel = Step::Parallel(vec!["a".into(), "b | c".into()]);
        assert_eq!(steps[0], parallel);
        assert_eq!(steps[1], Step::Lie("x".into(), "d || e".into()));
        assert_eq!(steps[2], Step::Run("f\ng".into()));
    }

    #[test]
    fn a_delay_belongs_to_the_next_step() {
        let turns = turns("SLEEP: 0.5\nSLEEP: 1\nRUN: a\nSLEEP: 2\nFINISH: b");
        assert_eq!(turns[0], (1500, Step::Run("a".into())));
        assert_eq!(turns[1], (2000, Step::Finish("b".into())));
    }

    #[test]
    fn the_last_message_with_a_script_is_used() {
        let messages = [
            json!({"role": "user", "content": "RUN: old"}),
            json!({"role": "assistant", "content": "x"}),
            json!({"role": "user", "content": [{"type": "text", "text": "RUN: new"}]}),
            json!({"role": "user", "content": "go on"}),
        ];
        assert_eq!(next(&messages).unwrap().step, Step::Run("new".into()));
    }

    #[test]
    fn without_a_directive_there_is_no_script() {
        let prompts = "hello|run: lower case|HTTP: 200|HTTP: teapot|SLEEP: -1|SLEEP: NaN|";
        for prompt in prompts.split('|') {
            let messages = [json!({"role": "user", "content": prompt})];
            assert!(next(&messages).is_none(), "{prompt:?}");
        }
    }
}
