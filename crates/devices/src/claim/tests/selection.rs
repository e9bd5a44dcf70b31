//! Selection of a device: scores, eligibility, and the recorded decision.

use std::collections::BTreeSet;

use millstream_model::id::{DeviceId, Name};
use millstream_model::raw::RawJson;

use super::fixture::{RunFixture, at, device, name, spec};
use crate::claim::{
    CreatingDevice, DeviceAction, DeviceCandidate, DeviceChoice, DeviceChoiceReason, DeviceDecision,
    DeviceIneligibility, DeviceReport, DeviceRoster, MAX_CARDS, RunRecord, RunRefusalReason, RunSpec,
    SeatOutlook, SeatState, SeatStatus, SelectionWeights, check_eligible, choose_device, create_run,
    place_run,
};

fn names(texts: &[&str]) -> BTreeSet<Name> {
    texts.iter().map(|text| name(text)).collect()
}

fn candidate(id: &str) -> DeviceCandidate {
    let device = DeviceReport {
        capabilities: names(&["gpu", "ffmpeg"]),
        capability: 8,
        capacity: Some(4),
        ..DeviceReport::with_defaults(device(id), at(0))
    };
    DeviceCandidate { device, open: 0 }
}

fn with(id: &str, change: impl FnOnce(&mut DeviceCandidate)) -> DeviceCandidate {
    let mut candidate = candidate(id);
    change(&mut candidate);
    candidate
}

fn listed(candidates: &[DeviceCandidate]) -> DeviceRoster {
    candidates.iter().cloned().collect()
}

fn run(spec: RunSpec) -> RunRecord {
    create_run(spec, None, at(0)).run
}

fn chosen(run: &RunRecord, roster: &[DeviceCandidate]) -> (DeviceId, DeviceChoiceReason, DeviceDecision) {
    match choose_device(run, 0, &listed(roster), &SelectionWeights::default(), 0, at(0)) {
        DeviceChoice::Chosen { device, how, decision } => (device, how, *decision),
        DeviceChoice::Nobody { outlook, .. } => panic!("no device: {outlook}"),
    }
}

fn outlook(run: &RunRecord, roster: &[DeviceCandidate]) -> SeatOutlook {
    match choose_device(run, 0, &listed(roster), &SelectionWeights::default(), 0, at(0)) {
        DeviceChoice::Nobody { outlook, .. } => outlook,
        DeviceChoice::Chosen { device, .. } => panic!("{device}"),
    }
}

#[test]
fn device_score_has_four_parts() {
    let run = run(RunSpec { prefer: names(&["ffmpeg", "av1"]), ..spec() });
    let roster = [
        with("a", |one| (one.device.load, one.device.quality) = (0.5, 0.5)),
        with("b", |one| (one.open, one.device.capability) = (3, 16)),
    ];
    let (best, how, decision) = chosen(&run, &roster);
    assert_eq!((best, how), (device("b"), DeviceChoiceReason::Score));
    let card = |id: &str| decision.cards.iter().find(|card| card.device.as_str() == id).unwrap();
    let parts = |id| card(id).parts.map(|parts| [parts.load, parts.quality, parts.rank, parts.relevant]);
    assert_eq!(parts("a"), Some([20.0, 15.0, 0.0, 5.0]));
    assert_eq!(parts("b"), Some([10.0, 30.0, 20.0, 5.0]), "three of four places taken count as load");
    assert_eq!(card("b").score, Some(65.0));
}

#[test]
fn device_card_names_ineligibility() {
    let mut run = run(RunSpec { requires: names(&["gpu"]), min_battery: Some(20), devices: 2, ..spec() });
    run.seats[0].passed_over.insert(device("declined"));
    run.seats[1] = RunFixture::reach(SeatStatus::Assigned).run.seats.remove(0);
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
        check_eligible(&run, 0, candidate, at(100)).unwrap_err()
    };
    assert_eq!(unfit("weak"), DeviceIneligibility::Incapable { missing: names(&["gpu"]) });
    assert_eq!(unfit("far"), DeviceIneligibility::Unreachable { seen_at: at(0) });
    assert_eq!(
        (unfit("paused"), unfit("plugged")),
        (DeviceIneligibility::Paused, DeviceIneligibility::Paused)
    );
    assert_eq!(unfit("empty"), DeviceIneligibility::Battery { percent: 19 });
    assert_eq!(unfit("d1"), DeviceIneligibility::OnAnotherSeat);
    assert_eq!(unfit("declined"), DeviceIneligibility::PassedOver);
    assert_eq!(unfit("full"), DeviceIneligibility::NoRoom { open: 4 });
    let DeviceChoice::Nobody { outlook, decision } =
        choose_device(&run, 0, &listed(&roster), &SelectionWeights::default(), 0, at(100))
    else {
        panic!()
    };
    assert_eq!((outlook, decision.cards.len()), (SeatOutlook::Busy, 8));
    let told = RawJson::from_value(&decision);
    assert!(told.as_str().contains(r#"{"device":"full","unfit":{"why":"no_room","open":4}}"#), "{told}");
}

#[test]
fn outlook_depends_on_ineligibility() {
    let mut run = run(RunSpec { requires: names(&["gpu"]), ..spec() });
    run.seats[0].passed_over.insert(device("a"));
    let (declined, full) = (candidate("a"), with("b", |one| one.open = 4));
    let weak = with("c", |one| one.device.capabilities.clear());
    assert_eq!(outlook(&run, &[]), SeatOutlook::Nobody);
    assert_eq!(outlook(&run, std::slice::from_ref(&weak)), SeatOutlook::Nobody);
    assert_eq!(outlook(&run, &[weak.clone(), declined.clone()]), SeatOutlook::Declined);
    assert_eq!(outlook(&run, &[weak, declined, full]), SeatOutlook::Busy);
}

#[test]
fn equal_devices_are_chosen_round_robin() {
    let run = run(spec());
    let mut roster = ["c", "a", "b"].map(candidate);
    roster.iter_mut().for_each(|one| one.device.capability = 1);
    let weights = SelectionWeights { rank: 0.0, ..SelectionWeights::default() };
    let turns: Vec<DeviceId> = (0..6)
        .map(|turn| match choose_device(&run, 0, &listed(&roster), &weights, turn, at(0)) {
            DeviceChoice::Chosen { device, .. } => device,
            DeviceChoice::Nobody { .. } => panic!(),
        })
        .collect();
    assert_eq!(turns, ["a", "b", "c", "a", "b", "c"].map(device));
}

#[test]
fn willing_creator_is_chosen_first() {
    let by =
        |willing| RunSpec { creator: Some(CreatingDevice { device: device("slow"), willing }), ..spec() };
    let roster = [candidate("fast"), with("slow", |one| one.device.quality = 0.0)];
    assert_eq!(chosen(&run(by(true)), &roster).0, device("slow"));
    assert_eq!(chosen(&run(by(true)), &roster).1, DeviceChoiceReason::Creator);
    assert_eq!(chosen(&run(by(false)), &roster).0, device("fast"));
    let incapable = RunSpec { requires: names(&["gpu"]), ..by(true) };
    let roster = [candidate("fast"), with("slow", |one| one.device.capabilities.clear())];
    assert_eq!(chosen(&run(incapable), &roster).0, device("fast"));
    // The creator was asked once: from then on it has no precedence.
    let mut stage = RunFixture::of(by(true));
    stage.assign("slow").does(DeviceAction::Accept).does(DeviceAction::Release { reason: None });
    stage.run.seats[0].passed_over.clear();
    assert_eq!(
        chosen(&stage.run, &[candidate("fast"), with("slow", |one| one.device.quality = 0.0)]).0,
        device("fast")
    );
}

#[test]
fn run_may_prefer_elected_coordinator() {
    let roster = [
        with("fast", |one| one.device.capability = 9),
        with("elected", |one| (one.device.coordinates, one.device.quality) = (true, 0.0)),
        with("weaker", |one| (one.device.coordinates, one.device.capability) = (true, 7)),
    ];
    let wanted = run(RunSpec { prefer_coordinator: true, ..spec() });
    assert_eq!(chosen(&wanted, &roster).0, device("elected"));
    assert_eq!(chosen(&wanted, &roster).1, DeviceChoiceReason::Coordinator);
    assert_eq!(chosen(&run(spec()), &roster).0, device("fast"));
}

#[test]
fn device_self_report_is_clamped() {
    let run = run(spec());
    for wild in [f64::NAN, f64::INFINITY, -3.0, 7.0] {
        let roster = [with("a", |one| (one.device.load, one.device.quality) = (wild, wild))];
        let (_, _, decision) = chosen(&run, &roster);
        let score = decision.cards[0].score.unwrap();
        assert!((0.0..=100.0).contains(&score), "{wild}: {score}");
    }
    assert_eq!(with("a", |one| one.device.capacity = Some(0)).total_load(), 1.0);
    assert_eq!(with("a", |one| (one.device.capacity, one.open) = (None, 99)).total_load(), 0.0);
}

#[test]
fn decision_keeps_best_device_cards() {
    let roster: Vec<DeviceCandidate> = (0..MAX_CARDS + 20).map(|n| candidate(&format!("d{n}"))).collect();
    let (_, _, decision) = chosen(&run(spec()), &roster);
    assert_eq!((decision.cards.len(), decision.left_out), (MAX_CARDS, 20));
}

#[test]
fn creation_and_placement_are_one_change() {
    let spec = RunSpec { devices: 2, ..spec() };
    let change = place_run(
        create_run(spec, None, at(0)),
        &mut listed(&["a", "b"].map(candidate)),
        &SelectionWeights::default(),
        0,
        None,
        at(0),
    );
    let holders: Vec<_> =
        change.run.seats.iter().map(|seat| seat.current_holding().unwrap().device.clone()).collect();
    assert_eq!(holders, [device("a"), device("b")]);
    let decisions: Vec<_> = change.log.iter().filter_map(|entry| entry.detail.as_ref()).collect();
    assert_eq!(decisions.len(), 2);
    assert!(decisions[0].as_str().starts_with(r#"{"how":"score","cards":[{"device":"a","score":"#));
}

#[test]
fn willing_creator_claims_at_creation() {
    let spec = RunSpec { creator: Some(CreatingDevice { device: device("a"), willing: true }), ..spec() };
    let change = place_run(
        create_run(spec, None, at(0)),
        &mut listed(&[candidate("a")]),
        &SelectionWeights::default(),
        0,
        None,
        at(0),
    );
    assert!(matches!(change.run.seats[0].state, SeatState::Claimed { .. }));
    let to: Vec<&str> = change.log.iter().map(|entry| entry.to.as_str()).collect();
    assert_eq!(to, ["created", "assigning_to_self", "claimed"]);
}

#[test]
fn run_without_device_backs_off() {
    let change = place_run(
        create_run(spec(), None, at(0)),
        &mut listed(&[]),
        &SelectionWeights::default(),
        0,
        None,
        at(0),
    );
    assert_eq!(change.run.status(), SeatStatus::Reassigning);
    assert_eq!(crate::claim::next_due(&change.run, 0), Some((at(5), crate::claim::SeatDue::BackoffOver)));
}

#[test]
fn refused_self_claim_names_ineligibility() {
    let mut stage = RunFixture::of(RunSpec { requires: names(&["gpu"]), ..spec() });
    let weak = with("a", |one| one.device.capabilities.clear());
    let fitness = check_eligible(&stage.run, 0, &weak, at(0));
    let claim =
        crate::claim::RunInput::SelfClaim { device: device("a"), seat: None, fitness, decision: None };
    let refusal = stage.refused(&claim);
    assert!(matches!(refusal.why, RunRefusalReason::Unfit(DeviceIneligibility::Incapable { .. })));
    assert_eq!(refusal.to_string(), "the device cannot take it: it lacks gpu");
}

#[test]
fn roster_counts_seats_and_updates_reports() {
    let mut roster = listed(&[with("a", |one| one.device.capacity = Some(1)), candidate("b")]);
    let first =
        place_run(create_run(spec(), None, at(0)), &mut roster, &SelectionWeights::default(), 0, None, at(0));
    let second =
        place_run(create_run(spec(), None, at(0)), &mut roster, &SelectionWeights::default(), 0, None, at(0));
    let holder =
        |change: &crate::claim::RunChange| change.run.seats[0].current_holding().unwrap().device.clone();
    assert_eq!(
        (holder(&first), holder(&second)),
        (device("a"), device("b")),
        "the first has no free capacity any more"
    );
    roster.shift_open_seats(&device("a"), -1);
    roster.put(with("b", |one| one.device.paused = true));
    roster.update_report(candidate("b").device);
    let third =
        place_run(create_run(spec(), None, at(0)), &mut roster, &SelectionWeights::default(), 0, None, at(0));
    assert_eq!(holder(&third), device("a"), "a heartbeat does not end a pause");
    roster.remove(&device("a"));
    roster.update_report(with("c", |one| one.device.capability = 99).device);
    assert_eq!((roster.len(), roster.get(&device("a"))), (2, None));
    let fourth =
        place_run(create_run(spec(), None, at(0)), &mut roster, &SelectionWeights::default(), 0, None, at(0));
    assert_eq!(holder(&fourth), device("c"));
}

#[test]
fn busy_device_cards_are_kept_first() {
    let weak = |n| with(&format!("a{n}"), |one| one.device.capabilities.clear());
    let mut roster: Vec<DeviceCandidate> = (0..MAX_CARDS).map(weak).collect();
    roster.push(with("z", |one| one.open = 4));
    let run = run(RunSpec { requires: names(&["gpu"]), ..spec() });
    let DeviceChoice::Nobody { decision, .. } =
        choose_device(&run, 0, &listed(&roster), &SelectionWeights::default(), 0, at(0))
    else {
        panic!()
    };
    assert_eq!(decision.cards[0].unfit, Some(DeviceIneligibility::NoRoom { open: 4 }));
}
