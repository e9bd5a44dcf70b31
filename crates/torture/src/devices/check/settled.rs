//! D5: an execution that waits for a run receives its outcome exactly once and correctly.

use std::collections::BTreeMap;

use millstream_devices::claim::SeatStatus;

use super::evidence::{DeviceEvidence, DeviceFinding, DeviceRule, RunSeen};
use crate::devices::plan::{FAILED, SUCCEEDED};

pub(super) fn check_settled(evidence: &DeviceEvidence) -> Vec<DeviceFinding> {
    let mut runs: BTreeMap<&str, Vec<&RunSeen>> = BTreeMap::new();
    for run in &evidence.runs {
        if let Some(execution) = &run.execution {
            runs.entry(execution).or_default().push(run);
        }
    }
    let mut found = Vec::new();
    for id in &evidence.clients.executions {
        let Some(execution) = evidence.executions.iter().find(|execution| execution.id == *id) else {
            found.push(DeviceFinding::new_finding(
                DeviceRule::Settled,
                id,
                "was acknowledged and is not there",
            ));
            continue;
        };
        let mut wrong = |what: String| found.push(DeviceFinding::new_finding(DeviceRule::Settled, id, what));
        let told: Vec<&str> = execution
            .names
            .iter()
            .map(String::as_str)
            .filter(|name| [SUCCEEDED, FAILED].contains(name))
            .collect();
        match runs.get(id.as_str()).map(Vec::as_slice) {
            Some([run]) => {
                let expected = if run.status == SeatStatus::Completed { SUCCEEDED } else { FAILED };
                if told != [expected] {
                    wrong(format!("its run is {}, and it received {told:?}", run.status));
                }
            }
            Some(several) => wrong(format!("has {} runs", several.len())),
            None => wrong("has no run".to_owned()),
        }
        if execution.status != "completed" {
            wrong(format!("is {} at the end", execution.status));
        }
    }
    found
}
