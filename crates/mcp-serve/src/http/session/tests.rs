//! Tests of sessions.

use super::*;

fn negotiated() -> Negotiated {
    Negotiated {
        client: ClientName::default(),
        revision: Revision::V2025_06_18,
        capabilities: ClientCapabilities {
            elicitation: true,
            url_elicitation: true,
            roots: true,
            ..ClientCapabilities::default()
        },
    }
}

fn client() -> String {
    "::1".to_owned()
}

fn verified() -> VerifiedId {
    VerifiedId {
        handle: 0,
        owner: String::new(),
        negotiated: negotiated(),
        number: 0,
        issued: unix_time().as_secs(),
    }
}

fn sessions(key: u8) -> Sessions {
    Sessions::new(Signer::new([key; 32]), None)
}

#[test]
fn session_survives_a_restart_and_belongs_to_its_principal() {
    let id = sessions(1).create_id(negotiated(), "alice").unwrap();
    assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
    let replica = sessions(1);
    let session = replica.open(&id, "alice", client).unwrap();
    assert_eq!(session.connection.negotiated(), Some(negotiated()));
    assert_eq!(**session.id(), *id);
    assert!(replica.open(&id, "bob", client).is_none());
    assert!(!replica.end(&id, "bob", &client()));
    assert!(sessions(2).open(&id, "alice", client).is_none());
    assert!(replica.open(&id, "alice", client).is_some());
}

#[test]
fn result_of_the_negotiation_is_part_of_the_id() {
    let sessions = sessions(1);
    for (revision, polls) in Revision::ALL.into_iter().zip([false, false, false, true]) {
        for flags in 0..32 {
            let has = |bit| flags & bit != 0;
            let capabilities = ClientCapabilities {
                elicitation: has(1),
                url_elicitation: has(2),
                sampling: has(4),
                roots: has(8),
                structured_only: has(16),
            };
            let negotiated = Negotiated {
                revision,
                capabilities,
                client: ClientName::new("some client"),
            };
            let id = sessions.create_id(negotiated.clone(), "").unwrap();
            let session = sessions.open(&id, "", client).unwrap();
            assert_eq!(session.connection.negotiated(), Some(negotiated));
            let policy = session.replay_policy(None);
            assert_eq!(
                (&*policy.session, policy.polls),
                (&*id, polls),
                "{revision:?}"
            );
        }
    }
}

#[test]
fn session_lasts_a_week() {
    let (sessions, week) = (sessions(1), Duration::from_secs(604_800));
    let minute = Duration::from_secs(60);
    for (issued, is_valid) in [
        (unix_time() - week + minute, true),
        (unix_time() - week - minute, false),
        (unix_time() + 4 * minute, true),
        (unix_time() + 6 * minute, false),
    ] {
        let id = sessions.create_id_at(negotiated(), "", issued).unwrap();
        assert_eq!(
            sessions.open(&id, "", client).is_some(),
            is_valid,
            "{issued:?}"
        );
    }
}

#[test]
fn connections_of_a_session_have_one_id() {
    let sessions = sessions(1);
    let ids = [(); 2].map(|()| sessions.create_id(negotiated(), "").unwrap());
    // Each object is dropped before the next one is made, so it may have the same address.
    let open = |id: &str| sessions.open(id, "", client).unwrap().connection.id();
    assert_eq!(open(&ids[0]), open(&ids[0]));
    assert_ne!(open(&ids[0]), open(&ids[1]));
    assert_ne!(Connection::default().id(), Connection::default().id());
}

#[test]
fn session_in_memory_expires_as_others_do() {
    let sessions = sessions(1);
    let id = sessions.create_id(negotiated(), "").unwrap();
    drop(sessions.open(&id, "", client).unwrap());
    let mut live = sessions.live.lock();
    assert!(live.find(&id, "").is_some());
    let session = live.by_id.get_mut(&*id).unwrap();
    let session = Arc::get_mut(session).unwrap();
    session.verified.issued -= SESSION_LIFETIME.as_secs() + 60;
    assert!(live.find(&id, "").is_none());
}

/// A client that opens many sessions ends only sessions of its own.
#[test]
fn sessions_of_others_stay_when_a_client_opens_too_many() {
    let mut live = LiveSessions::default();
    let others = ["a", "b", "c"].map(|name| live.add(name, name.to_owned(), verified()));
    let numbers = 0..MAX_LIVE_SESSIONS + 10;
    let _used: Vec<_> = numbers
        .map(|number| live.add(&number.to_string(), client(), verified()))
        .collect();
    assert_eq!(live.by_id.len(), MAX_LIVE_SESSIONS);
    assert!(
        others
            .iter()
            .all(|other| !other.connection.ended().is_cancelled())
    );
    assert!(!live.by_id.contains_key("12") && live.by_id.contains_key("13"));
}

#[test]
fn unused_and_expired_sessions_make_room_first() {
    let mut live = LiveSessions::default();
    let expired = VerifiedId {
        issued: 0,
        ..verified()
    };
    let expired = live.add("expired", client(), expired);
    let numbers = 0..MAX_LIVE_SESSIONS;
    let mut used: Vec<_> = numbers
        .map(|number| live.add(&number.to_string(), client(), verified()))
        .collect();
    assert!(expired.connection.ended().is_cancelled());
    assert_eq!(live.by_id.len(), MAX_LIVE_SESSIONS);
    drop(used.split_off(100));
    live.add("last", client(), verified());
    assert_eq!(live.by_id.len(), 101);
    assert!(live.by_id.contains_key("0") && live.by_id.contains_key("last"));
}
