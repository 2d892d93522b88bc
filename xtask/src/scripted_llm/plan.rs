//! From a conversation to the next step.

use std::time::Duration;

use serde_json::Value;

/// One thing that the model does in a turn of its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// `RUN: command`: call the terminal.
    Run(String),
    /// `WRITE: path text`: create a file.
    Write(String, String),
    /// `SAY: text`: plain text and no call.
    Say(String),
    /// `HTTP: 500`: fail with this status.
    Http(u16),
    /// `FINISH: text`: call the tool that ends the task.
    Finish(String),
}

/// The next turn of the model.
#[derive(Debug, PartialEq)]
pub(crate) struct Turn {
    /// How long to hold the answer back (`SLEEP: seconds`).
    pub(crate) delay: Duration,
    /// What to answer.
    pub(crate) step: Step,
}

enum Line {
    Sleep(Duration),
    Step(Step),
}

/// What comes next in this list of messages; `None` when no prompt has a directive.
///
/// The script is the last user message that has any. Its steps are taken in order, one
/// for each answer that the assistant has given since, and after the last comes `FINISH: done`.
pub(crate) fn next(messages: &[Value]) -> Option<Turn> {
    let script = |message: &Value| {
        let lines = (message["role"] == "user").then(|| parse(&text(&message["content"])))?;
        (!lines.is_empty()).then_some(lines)
    };
    let (at, lines) = messages
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, message)| Some((at, script(message)?)))?;
    let taken = messages[at..]
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count();
    Some(take(lines, taken))
}

fn take(lines: Vec<Line>, taken: usize) -> Turn {
    let mut passed = 0;
    let mut delay = Duration::ZERO;
    for line in lines {
        match line {
            Line::Sleep(pause) if passed == taken => delay += pause,
            Line::Sleep(_) => {}
            Line::Step(step) if passed == taken => return Turn { delay, step },
            Line::Step(_) => passed += 1,
        }
    }
    Turn {
        delay,
        step: Step::Finish("done".into()),
    }
}

/// The text of a message, which is a string or a list of parts.
pub(crate) fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    }
}

fn parse(prompt: &str) -> Vec<Line> {
    prompt.lines().filter_map(directive).collect()
}

fn directive(line: &str) -> Option<Line> {
    let (word, rest) = line.trim().split_once(':')?;
    let rest = rest.trim().to_owned();
    Some(Line::Step(match word {
        "RUN" => Step::Run(rest),
        "WRITE" => {
            let (path, text) = rest.split_once(' ').unwrap_or((&rest, ""));
            Step::Write(path.to_owned(), text.to_owned())
        }
        "SAY" => Step::Say(rest),
        "HTTP" => Step::Http(
            rest.parse()
                .ok()
                .filter(|status| (400..600).contains(status))?,
        ),
        "FINISH" => Step::Finish(rest),
        "SLEEP" => {
            return Some(Line::Sleep(
                Duration::try_from_secs_f64(rest.parse().ok()?).ok()?,
            ));
        }
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn steps(prompt: &str) -> Vec<Turn> {
        let mut messages = vec![
            json!({"role": "system", "content": "RUN: not a script"}),
            json!({"role": "user", "content": prompt}),
        ];
        let mut turns = Vec::new();
        while turns
            .last()
            .is_none_or(|turn: &Turn| !matches!(turn.step, Step::Finish(_)))
        {
            turns.push(next(&messages).unwrap());
            messages.push(json!({"role": "assistant", "content": "x"}));
            messages.push(json!({"role": "tool", "content": "RUN: not a script either"}));
        }
        turns
    }

    fn now(step: Step) -> Turn {
        Turn {
            delay: Duration::ZERO,
            step,
        }
    }

    #[test]
    fn takes_the_steps_in_order_and_finishes() {
        let turns = steps("Please:\n  RUN: echo a: b\nWRITE: a.txt some text\nSAY: hi");
        assert_eq!(
            turns,
            [
                now(Step::Run("echo a: b".into())),
                now(Step::Write("a.txt".into(), "some text".into())),
                now(Step::Say("hi".into())),
                now(Step::Finish("done".into())),
            ]
        );
    }

    #[test]
    fn a_pause_belongs_to_the_step_after_it() {
        let turns = steps("SLEEP: 0.5\nSLEEP: 1\nRUN: a\nSLEEP: 2\nFINISH: b");
        assert_eq!(
            turns[0],
            Turn {
                delay: Duration::from_millis(1500),
                step: Step::Run("a".into())
            }
        );
        assert_eq!(
            turns[1],
            Turn {
                delay: Duration::from_secs(2),
                step: Step::Finish("b".into())
            }
        );
    }

    #[test]
    fn the_last_message_with_a_script_counts() {
        let messages = [
            json!({"role": "user", "content": "RUN: old"}),
            json!({"role": "assistant", "content": "x"}),
            json!({"role": "user", "content": [{"type": "text", "text": "RUN: new"}]}),
            json!({"role": "user", "content": "go on"}),
        ];
        assert_eq!(next(&messages), Some(now(Step::Run("new".into()))));
    }

    #[test]
    fn without_a_directive_there_is_no_plan() {
        for prompt in [
            "hello",
            "run: lower case",
            "HTTP: 200",
            "HTTP: teapot",
            "SLEEP: -1",
            "SLEEP: NaN",
            "",
        ] {
            assert_eq!(
                next(&[json!({"role": "user", "content": prompt})]),
                None,
                "{prompt:?}"
            );
        }
    }
}
