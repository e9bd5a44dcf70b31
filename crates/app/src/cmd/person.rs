//! `millstream person`: people who perform items, and their skills.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use crate::cli::{PersonArgs, PersonCommand};
use crate::client::{ApiClient, path_segment};
use crate::failure::hinted;
use crate::output::{CliOutput, format_fields, format_table, plain_text};

const HINT: &str = "`millstream person list` lists people; `millstream person put NAME` adds a person";
const PERSON: &[&str] = &["person", "skills", "state"];

pub(crate) async fn run(args: &PersonArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    match &args.command {
        PersonCommand::List { limit } => {
            let items = client.list_pages("/v1/people", &[], *limit).await?;
            output.show(&json!({ "items": items }), |_| people_page(&items))
        }
        PersonCommand::Get { person } => {
            let found = client.get(&person_path(person, "")).await.map_err(|error| hinted(error, HINT))?;
            output.show(&found, |found| format_fields(found, PERSON))
        }
        PersonCommand::Put { person, skills } => {
            let request =
                client.request(Method::PUT, &person_path(person, "")).json(&json!({ "skills": skills }));
            let answer = client.send_for_json(request).await?;
            output.show(&answer, |answer| match plain_text(&answer["skills"]).as_str() {
                "" => format!("{person} is known, with no skills in particular"),
                skills => format!("{person} is known, with {skills}"),
            })
        }
        PersonCommand::Pause { person } => pause_or_resume(person, "pause", client, output).await,
        PersonCommand::Resume { person } => pause_or_resume(person, "resume", client, output).await,
    }
}

fn person_path(person: &str, rest: &str) -> String {
    format!("/v1/people/{}{rest}", path_segment(person))
}

async fn pause_or_resume(person: &str, word: &str, client: &ApiClient, output: CliOutput) -> Result<()> {
    let answer = client.post(&person_path(person, &format!("/{word}")), &json!({})).await;
    let answer = answer.map_err(|error| hinted(error, HINT))?;
    output.show(&answer, |_| match word {
        "pause" => format!("{person} is given nothing more; what they have they keep"),
        _ => format!("{person} is given work again"),
    })
}

fn people_page(people: &[Value]) -> String {
    if people.is_empty() {
        return "no people".to_owned();
    }
    format_table(people, &[("person", "person"), ("skills", "skills"), ("state", "state")])
}
