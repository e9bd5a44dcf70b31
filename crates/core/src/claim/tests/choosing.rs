//! Selection of a device: scores, eligibility, and the recorded decision.

use std::collections::BTreeSet;

use super::stage::{Stage, at, device, name, spec};
use crate::claim::{
    Candidate, Choice, Creator, Decision, Device, Doing, How, MAX_CARDS, Outlook, Roster, Run, RunSpec,
    SeatState, Status, Unfit, Weights, Why, choose, create, fit, place,
};
use crate::id::{DeviceId, Name};
use crate::raw::RawJson;

fn names(texts: &[&str]) -> BTreeSet<Name> {
    texts.iter().map(|text| name(text)).collect()
}

fn candidate(id: &str) -> Candidate {
    let device = Device {
        capabilities: names(&["gpu", "ffmpeg"]),
        capability: 8,
        capacity: Some(4),
        ..Device::plain(device(id), at(0))
    };
    Candidate { device, open: 0 }
}

fn with(id: &str, change: impl FnOnce(&mut Candidate)) -> Candidate {
    let mut candidate = candidate(id);
    change(&mut candidate);
    candidate
}

fn listed(candidates: &[Candidate]) -> Roster {
    candidates.iter().cloned().collect()
}

fn run(spec: RunSpec) -> Run {
    create(spec, None, at(0)).run
}

fn chosen(run: &Run, roster: &[Candidate]) -> (DeviceId, How, Decision) {
    match choose(run, 0, &listed(roster), &Weights::default(), 0, at(0)) {
        Choice::Chosen { device, how, decision } => (device, how, *decision),
        Choice::Nobody { outlook, .. } => panic!("no device: {outlook}"),
    }
}

fn outlook(run: &Run, roster: &[Candidate]) -> Outlook {
    match choose(run, 0, &listed(roster), &Weights::default(), 0, at(0)) {
        Choice::Nobody { outlook, .. } => outlook,
        Choice::Chosen { device, .. } => panic!("{device}"),
    }
}

#[test]
fn a_score_is_made_of_load_quality_rank_and_relevance() {
    let run = run(RunSpec { prefer: names(&["ffmpeg", "av1"]), ..spec() });
    let roster = [
        with("a", |one| (one.device.load, one.device.quality) = (0.5, 0.5)),
        with("b", |one| (one.open, one.device.capability) = (3, 16)),
    ];
    let (best, how, decision) = chosen(&run, &roster);
    assert_eq!((best, how), (device("b"), How::Score));
    let card = |id: &str| decision.cards.iter().find(|card| card.device.as_str() == id).unwrap();
    let parts = |id| card(id).parts.map(|parts| [parts.load, parts.quality, parts.rank, parts.relevant]);
    assert_eq!(parts("a"), Some([20.0, 15.0, 0.0, 5.0]));
    assert_eq!(parts("b"), Some([10.0, 30.0, 20.0, 5.0]), "three of four places taken count as load");
    assert_eq!(card("b").score, Some(65.0));
}

#[test]
fn each_reason_not_to_be_asked_is_on_the_card() {
    let mut run = run(RunSpec { requires: names(&["gpu"]), min_battery: Some(20), devices: 2, ..spec() });
    run.seats[0].passed_over.insert(device("declined"));
    run.seats[1] = Stage::reach(Status::Assigned).run.seats.remove(0);
    let roster = [
        with("weak", |one| one.device.capabilities = names(&["ffmpeg"])),
        with("far", |one| one.device.seen_at = at(0)),
        with("paused", |one| one.device.paused = true),
        with("empty", |one| (one.device.battery, one.device.on_battery) = (Some(19), true)),
        with("plugged", |one| (one.device.battery, one.device.paused) = (Some(19), true)),
        candidate("d1"),
        candidate("declined"),
        with("full", |one| one.open = 4),
    ]
    .map(|mut one| {
        if one.device.id.as_str() != "far" {
            one.device.seen_at = at(100);
        }
        one
    });
    let unfit = |id: &str| {
        let candidate = roster.iter().find(|one| one.device.id.as_str() == id).unwrap();
        fit(&run, 0, candidate, at(100)).unwrap_err()
    };
    assert_eq!(unfit("weak"), Unfit::Incapable { missing: names(&["gpu"]) });
    assert_eq!(unfit("far"), Unfit::Unreachable { seen_at: at(0) });
    assert_eq!((unfit("paused"), unfit("plugged")), (Unfit::Paused, Unfit::Paused));
    assert_eq!(unfit("empty"), Unfit::Battery { percent: 19 });
    assert_eq!(unfit("d1"), Unfit::OnAnotherSeat);
    assert_eq!(unfit("declined"), Unfit::PassedOver);
    assert_eq!(unfit("full"), Unfit::NoRoom { open: 4 });
    let Choice::Nobody { outlook, decision } =
        choose(&run, 0, &listed(&roster), &Weights::default(), 0, at(100))
    else {
        panic!()
    };
    assert_eq!((outlook, decision.cards.len()), (Outlook::Busy, 8));
    let told = RawJson::of(&decision);
    assert!(told.as_str().contains(r#"{"device":"full","unfit":{"why":"no_room","open":4}}"#), "{told}");
}

#[test]
fn what_there_is_to_hope_for_depends_on_who_could() {
    let mut run = run(RunSpec { requires: names(&["gpu"]), ..spec() });
    run.seats[0].passed_over.insert(device("a"));
    let (declined, full) = (candidate("a"), with("b", |one| one.open = 4));
    let weak = with("c", |one| one.device.capabilities.clear());
    assert_eq!(outlook(&run, &[]), Outlook::Nobody);
    assert_eq!(outlook(&run, std::slice::from_ref(&weak)), Outlook::Nobody);
    assert_eq!(outlook(&run, &[weak.clone(), declined.clone()]), Outlook::Declined);
    assert_eq!(outlook(&run, &[weak, declined, full]), Outlook::Busy);
}

#[test]
fn equals_take_turns() {
    let run = run(spec());
    let mut roster = ["c", "a", "b"].map(candidate);
    roster.iter_mut().for_each(|one| one.device.capability = 1);
    let weights = Weights { rank: 0.0, ..Weights::default() };
    let turns: Vec<DeviceId> = (0..6)
        .map(|turn| match choose(&run, 0, &listed(&roster), &weights, turn, at(0)) {
            Choice::Chosen { device, .. } => device,
            Choice::Nobody { .. } => panic!(),
        })
        .collect();
    assert_eq!(turns, ["a", "b", "c", "a", "b", "c"].map(device));
}

#[test]
fn the_creating_device_comes_first_if_it_can_and_wants_to() {
    let by = |willing| RunSpec { creator: Some(Creator { device: device("slow"), willing }), ..spec() };
    let roster = [candidate("fast"), with("slow", |one| one.device.quality = 0.0)];
    assert_eq!(chosen(&run(by(true)), &roster).0, device("slow"));
    assert_eq!(chosen(&run(by(true)), &roster).1, How::Creator);
    assert_eq!(chosen(&run(by(false)), &roster).0, device("fast"));
    let incapable = RunSpec { requires: names(&["gpu"]), ..by(true) };
    let roster = [candidate("fast"), with("slow", |one| one.device.capabilities.clear())];
    assert_eq!(chosen(&run(incapable), &roster).0, device("fast"));
    // The creator was asked once: from then on it has no precedence.
    let mut stage = Stage::of(by(true));
    stage.assign("slow").does(Doing::Accept).does(Doing::Release { reason: None });
    stage.run.seats[0].passed_over.clear();
    assert_eq!(
        chosen(&stage.run, &[candidate("fast"), with("slow", |one| one.device.quality = 0.0)]).0,
        device("fast")
    );
}

#[test]
fn the_elected_coordinator_is_asked_before_all_others_if_the_run_says_so() {
    let roster = [
        with("fast", |one| one.device.capability = 9),
        with("elected", |one| (one.device.coordinates, one.device.quality) = (true, 0.0)),
        with("weaker", |one| (one.device.coordinates, one.device.capability) = (true, 7)),
    ];
    let wanted = run(RunSpec { prefer_coordinator: true, ..spec() });
    assert_eq!(chosen(&wanted, &roster).0, device("elected"));
    assert_eq!(chosen(&wanted, &roster).1, How::Coordinator);
    assert_eq!(chosen(&run(spec()), &roster).0, device("fast"));
}

#[test]
fn what_a_device_says_of_itself_is_held_within_reason() {
    let run = run(spec());
    for wild in [f64::NAN, f64::INFINITY, -3.0, 7.0] {
        let roster = [with("a", |one| (one.device.load, one.device.quality) = (wild, wild))];
        let (_, _, decision) = chosen(&run, &roster);
        let score = decision.cards[0].score.unwrap();
        assert!((0.0..=100.0).contains(&score), "{wild}: {score}");
    }
    assert_eq!(with("a", |one| one.device.capacity = Some(0)).load(), 1.0);
    assert_eq!(with("a", |one| (one.device.capacity, one.open) = (None, 99)).load(), 0.0);
}

#[test]
fn of_a_large_fleet_the_best_cards_are_kept_and_the_rest_counted() {
    let roster: Vec<Candidate> = (0..MAX_CARDS + 20).map(|n| candidate(&format!("d{n}"))).collect();
    let (_, _, decision) = chosen(&run(spec()), &roster);
    assert_eq!((decision.cards.len(), decision.left_out), (MAX_CARDS, 20));
}

#[test]
fn creation_and_placement_are_one_change_with_the_decision_in_its_log() {
    let spec = RunSpec { devices: 2, ..spec() };
    let change = place(
        create(spec, None, at(0)),
        &mut listed(&["a", "b"].map(candidate)),
        &Weights::default(),
        0,
        None,
        at(0),
    );
    let holders: Vec<_> = change.run.seats.iter().map(|seat| seat.held().unwrap().device.clone()).collect();
    assert_eq!(holders, [device("a"), device("b")]);
    let decisions: Vec<_> = change.log.iter().filter_map(|entry| entry.detail.as_ref()).collect();
    assert_eq!(decisions.len(), 2);
    assert!(decisions[0].as_str().starts_with(r#"{"how":"score","cards":[{"device":"a","score":"#));
}

#[test]
fn a_run_of_a_willing_device_is_claimed_as_it_is_created() {
    let spec = RunSpec { creator: Some(Creator { device: device("a"), willing: true }), ..spec() };
    let change =
        place(create(spec, None, at(0)), &mut listed(&[candidate("a")]), &Weights::default(), 0, None, at(0));
    assert!(matches!(change.run.seats[0].state, SeatState::Claimed { .. }));
    let to: Vec<&str> = change.log.iter().map(|entry| entry.to.as_str()).collect();
    assert_eq!(to, ["created", "assigning_to_self", "claimed"]);
}

#[test]
fn a_run_that_finds_nobody_rests_and_is_not_lost() {
    let change = place(create(spec(), None, at(0)), &mut listed(&[]), &Weights::default(), 0, None, at(0));
    assert_eq!(change.run.status(), Status::Reassigning);
    assert_eq!(crate::claim::due(&change.run, 0), Some((at(5), crate::claim::Due::BackoffOver)));
}

#[test]
fn a_device_that_cannot_is_told_why_when_it_helps_itself() {
    let mut stage = Stage::of(RunSpec { requires: names(&["gpu"]), ..spec() });
    let weak = with("a", |one| one.device.capabilities.clear());
    let fitness = fit(&stage.run, 0, &weak, at(0));
    let claim = crate::claim::Input::SelfClaim { device: device("a"), seat: None, fitness, decision: None };
    let refusal = stage.refused(&claim);
    assert!(matches!(refusal.why, Why::Unfit(Unfit::Incapable { .. })));
    assert_eq!(refusal.to_string(), "the device cannot take it: it lacks gpu");
}

#[test]
fn a_roster_counts_what_it_gives_and_knows_what_was_heard() {
    let mut roster = listed(&[with("a", |one| one.device.capacity = Some(1)), candidate("b")]);
    let first = place(create(spec(), None, at(0)), &mut roster, &Weights::default(), 0, None, at(0));
    let second = place(create(spec(), None, at(0)), &mut roster, &Weights::default(), 0, None, at(0));
    let holder = |change: &crate::claim::Change| change.run.seats[0].held().unwrap().device.clone();
    assert_eq!(
        (holder(&first), holder(&second)),
        (device("a"), device("b")),
        "the first has no free capacity any more"
    );
    roster.shift(&device("a"), -1);
    roster.put(with("b", |one| one.device.paused = true));
    roster.hear(candidate("b").device);
    let third = place(create(spec(), None, at(0)), &mut roster, &Weights::default(), 0, None, at(0));
    assert_eq!(holder(&third), device("a"), "a heartbeat does not end a pause");
    roster.remove(&device("a"));
    roster.hear(with("c", |one| one.device.capability = 99).device);
    assert_eq!((roster.len(), roster.get(&device("a"))), (2, None));
    let fourth = place(create(spec(), None, at(0)), &mut roster, &Weights::default(), 0, None, at(0));
    assert_eq!(holder(&fourth), device("c"));
}

#[test]
fn the_cards_of_those_who_are_only_busy_are_not_left_out() {
    let weak = |n| with(&format!("a{n}"), |one| one.device.capabilities.clear());
    let mut roster: Vec<Candidate> = (0..MAX_CARDS).map(weak).collect();
    roster.push(with("z", |one| one.open = 4));
    let run = run(RunSpec { requires: names(&["gpu"]), ..spec() });
    let Choice::Nobody { decision, .. } = choose(&run, 0, &listed(&roster), &Weights::default(), 0, at(0))
    else {
        panic!()
    };
    assert_eq!(decision.cards[0].unfit, Some(Unfit::NoRoom { open: 4 }));
}
