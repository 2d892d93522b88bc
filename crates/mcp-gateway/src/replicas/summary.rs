//! The backends of all replicas together: sums, and the states in words where they differ.

use std::collections::BTreeMap;

use super::report::BackendNumbers;

/// One backend at all replicas.
#[derive(Debug, PartialEq)]
pub(crate) struct Summary {
    /// The sums of the numbers.
    pub(crate) sum: BackendNumbers,
    /// The states, if they differ.
    pub(crate) states: Option<String>,
}

/// Digits of an id that are shown.
const SHOWN_DIGITS: usize = 4;

impl Summary {
    /// Sums up a backend by the numbers at each replica, by the ids of these.
    pub(crate) fn new(replicas: &BTreeMap<String, BackendNumbers>) -> Self {
        let mut sum = BackendNumbers::default();
        replicas.values().for_each(|numbers| sum.add(numbers));
        let runs = |numbers: &BackendNumbers| numbers.state != "elsewhere";
        let words: BTreeMap<&str, String> = replicas
            .iter()
            .filter(|(_, numbers)| runs(numbers))
            .map(|(id, numbers)| (id.as_str(), in_words(numbers)))
            .collect();
        let running = words.values().filter(|text| *text == "running").count();
        let first = words.values().next();
        let is_one = words.len() < replicas.len();
        let differ = is_one || words.values().any(|text| Some(text) != first);
        let states = differ.then(|| {
            let others = words.iter().filter(|(_, text)| *text != "running");
            let others = others.map(|(id, text)| format!("{}: {text}", shown(id, replicas)));
            let all = match is_one {
                true => words
                    .keys()
                    .map(|id| format!("placed at {}", shown(id, replicas)))
                    .collect(),
                false => vec![format!("running at {running} of {}", words.len())],
            };
            all.into_iter().chain(others).collect::<Vec<_>>().join("; ")
        });
        Self { sum, states }
    }
}

fn in_words(numbers: &BackendNumbers) -> String {
    let state = match numbers.has_open_circuit {
        true => "circuit open",
        false => &numbers.state,
    };
    let next = numbers.next_try_s;
    let next = next.map(|wait| format!(", next try in {} s", wait.ceil()));
    format!("{state}{}", next.unwrap_or_default())
}

/// The first digits of an id; all of them where others begin with the same.
fn shown<'a>(id: &'a str, all: &BTreeMap<String, BackendNumbers>) -> &'a str {
    let short = id.get(..SHOWN_DIGITS).unwrap_or(id);
    let same = all.keys().filter(|other| other.starts_with(short));
    if same.count() > 1 { id } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(state: &str, calls: u64) -> BackendNumbers {
        BackendNumbers {
            state: state.to_owned(),
            calls,
            ..BackendNumbers::default()
        }
    }

    #[test]
    fn numbers_are_sums_and_states_are_named_where_they_differ() {
        let mut replicas: BTreeMap<String, BackendNumbers> = BTreeMap::new();
        for (id, calls) in [("a1b20000", 1), ("a1b30000", 2), ("c0000000", 4)] {
            replicas.insert(id.to_owned(), at("running", calls));
        }
        let same = Summary::new(&replicas);
        assert_eq!((same.sum.calls, same.states), (7, None));
        let open = BackendNumbers {
            has_open_circuit: true,
            next_try_s: Some(3.2),
            ..at("failed", 4)
        };
        replicas.insert("c0000000".to_owned(), open);
        let states = Summary::new(&replicas).states.unwrap();
        assert_eq!(
            states,
            "running at 2 of 3; c000: circuit open, next try in 4 s"
        );
        replicas.insert("a1b2ffff".to_owned(), at("starting", 0));
        let states = Summary::new(&replicas).states.unwrap();
        assert!(states.contains("; a1b2ffff: starting; c000: "), "{states}");
    }
}
