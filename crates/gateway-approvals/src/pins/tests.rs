//! Tests of the decisions about tools.

use std::time::Duration;

use gateway_store::Database;
use gateway_store::database::StoreLocation;
use gateway_store::events::Retention;

use super::*;

const HOLD: PinPolicy = PinPolicy {
    mode: PinMode::Hold,
    first_sight: FirstSight::Trust,
};

struct Checks {
    pins: Pins,
    policy: PinPolicy,
    _database: Database,
}

impl Checks {
    async fn new(policy: PinPolicy) -> Self {
        let database = Database::start(StoreLocation::Memory, Retention::default(), None).unwrap();
        let state = Arc::clone(&database.state);
        let mut entries = state.subscribe();
        entries.wait_for(|entries| entries.are_read).await.unwrap();
        let pins = Pins::new(state);
        pins.set_read(BTreeSet::new());
        Self {
            pins,
            policy,
            _database: database,
        }
    }

    /// The numbers of tools that are held back and of changes, for a list of these names and descriptions.
    async fn list(&self, tools: &[(&str, &str)]) -> (usize, usize) {
        let found = self.check(tools, true);
        let counts = (found.held.len(), found.changes.len());
        // As a running gateway does after each change.
        for _ in 0..30_000 {
            if !self.pins.has_unstored("b") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
            let again = self.check(tools, false);
            assert_eq!((again.held.len(), again.changes.len()), (counts.0, 0));
        }
        counts
    }

    fn check(&self, tools: &[(&str, &str)], is_new: bool) -> PinCheck {
        let definition = |(name, text): &(&str, &str)| {
            let json = format!(r#"{{"name":"{name}","description":"{text}"}}"#);
            RawValue::from_string(json).unwrap()
        };
        let definitions: Vec<_> = tools.iter().map(definition).collect();
        let hashes: Vec<String> = definitions.iter().map(|found| hash(found)).collect();
        let listed = tools.iter().zip(definitions.iter().zip(&hashes));
        let listed = listed.map(|((name, _), (definition, hash))| ListedTool {
            name,
            definition,
            hash,
        });
        let listed: Vec<_> = listed.collect();
        self.pins.check("b", self.policy, &listed, is_new)
    }

    /// Approves or refuses what is offered, as the command does.
    async fn decide(&self, approve: bool) {
        for (key, mut pin, entry) in read(&self.pins.state.entries(), "b") {
            if pin.offered.is_none() {
                continue;
            }
            pin.decide(approve, "olga".to_owned());
            let change = store(key, &pin, Expected::Revision(entry.revision));
            assert!(self.pins.state.change(vec![change]).await.unwrap());
        }
    }
}

/// A decision, or the description of the only tool, with the numbers of tools that are held back and of changes.
type Step = (&'static str, (usize, usize));

async fn check_steps(policy: PinPolicy, steps: &[Step]) {
    let checks = Checks::new(policy).await;
    for (words, expected) in steps {
        match *words {
            "approve" | "refuse" => checks.decide(*words == "approve").await,
            _ => assert_eq!(checks.list(&[("work", words)]).await, *expected, "{words}"),
        }
    }
}

#[tokio::test]
async fn refused_definitions_stay_refused() {
    let steps = [
        ("works", (0, 0)),
        ("steals", (0, 1)),
        ("refuse", (0, 0)),
        ("steals", (1, 0)),
        ("works", (0, 1)),
        ("steals", (1, 1)),
        ("steals more", (0, 1)),
        ("refuse", (0, 0)),
        ("steals", (1, 1)),
        ("approve", (0, 0)),
        ("steals", (0, 0)),
        ("steals more", (1, 1)),
    ];
    check_steps(PinPolicy::default(), &steps).await;
}

#[tokio::test]
async fn changed_tool_is_held_until_it_is_approved() {
    let steps = [
        ("works", (0, 0)),
        ("works", (0, 0)),
        ("steals", (1, 1)),
        ("steals", (1, 0)),
        ("works", (0, 1)),
        ("steals", (1, 1)),
        ("approve", (0, 0)),
        ("steals", (0, 0)),
        ("works", (1, 1)),
        ("steals more", (1, 1)),
    ];
    check_steps(HOLD, &steps).await;
}

#[tokio::test]
async fn renamed_tool_is_a_change_and_a_returning_one_is_not() {
    let checks = Checks::new(HOLD).await;
    checks.list(&[("work", "works"), ("rest", "rests")]).await;
    assert_eq!(checks.list(&[("rest", "rests")]).await, (0, 0), "gone");
    assert_eq!(
        checks.list(&[("labour", "works"), ("rest", "rests")]).await,
        (1, 1)
    );
    assert_eq!(
        checks.list(&[("labour", "works"), ("rest", "rests")]).await,
        (1, 0),
        "still"
    );
    let back = [("work", "works"), ("rest", "rests")];
    assert_eq!(checks.list(&back).await, (0, 0), "back");
    let changed = [("work", "steals"), ("rest", "rests")];
    assert_eq!(checks.list(&changed).await, (1, 1), "back and changed");
}

#[tokio::test]
async fn nothing_is_remembered_when_it_is_off() {
    let mut checks = Checks::new(PinPolicy {
        mode: PinMode::Off,
        ..HOLD
    })
    .await;
    checks.list(&[("work", "works")]).await;
    checks.policy = HOLD;
    assert_eq!(
        checks.list(&[("work", "steals")]).await,
        (0, 0),
        "the first sight"
    );
}

#[tokio::test]
async fn too_many_tools_push_no_pin_out() {
    let checks = Checks::new(HOLD).await;
    checks.list(&[("work", "works")]).await;
    let names: Vec<String> = (0..=MAX_PINS).map(|n| format!("tool{n}")).collect();
    let many: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), name.as_str()))
        .collect();
    let held = checks.list(&many).await.0;
    assert_eq!(
        held, 2,
        "one more than fit, and the place of `work` is taken"
    );
    assert_eq!(checks.list(&[("work", "steals")]).await, (1, 1));
}

/// A store that was lost is read again as such until the backend has listed a tool.
#[tokio::test]
async fn tools_of_a_lost_store_are_held_whenever_their_backend_lists_them() {
    let checks = Checks::new(HOLD).await;
    let state = Arc::clone(&checks.pins.state);
    let restart = || checks.pins.set_read(read_lost(&state.entries()));
    let marks = ["b", "c"].map(store_lost).to_vec();
    assert!(state.change(marks).await.unwrap());
    restart();
    assert_eq!(checks.list(&[]).await, (0, 0), "not up yet");
    restart();
    assert_eq!(checks.list(&[("work", "steals")]).await, (1, 1));
    let mut entries = state.subscribe();
    let is_known = |entries: &Arc<Entries>| !read_lost(entries).contains("b");
    entries.wait_for(is_known).await.unwrap();
    // It may list others a moment later.
    assert_eq!(checks.check(&[("other", "steals")], true).held.len(), 1);
    restart();
    assert_eq!(checks.list(&[("work", "steals")]).await, (1, 0), "still");
    assert_eq!(checks.list(&[("new", "works")]).await, (0, 0));
    assert_eq!(
        read_lost(&state.entries()),
        BTreeSet::from(["c".to_owned()])
    );
}
