//! `millstream person`: people who perform items, and their skills.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use crate::cli::{PersonArgs, PersonCommand};
use crate::client::{Client, segment};
use crate::failure::hinted;
use crate::output::{Output, fields, plain, table};

const HINT: &str = "`millstream person list` lists people; `millstream person put NAME` adds a person";
const PERSON: &[&str] = &["person", "skills", "state"];

pub(crate) async fn run(args: &PersonArgs, client: &Client, output: Output) -> Result<()> {
    match &args.command {
        PersonCommand::List { limit } => {
            let items = client.list("/v1/people", &[], *limit).await?;
            output.show(&json!({ "items": items }), |_| page(&items))
        }
        PersonCommand::Get { person } => {
            let found = client.get(&path(person, "")).await.map_err(|error| hinted(error, HINT))?;
            output.show(&found, |found| fields(found, PERSON))
        }
        PersonCommand::Put { person, skills } => {
            let request = client.request(Method::PUT, &path(person, "")).json(&json!({ "skills": skills }));
            let answer = client.json(request).await?;
            output.show(&answer, |answer| match plain(&answer["skills"]).as_str() {
                "" => format!("{person} is known, with no skills in particular"),
                skills => format!("{person} is known, with {skills}"),
            })
        }
        PersonCommand::Pause { person } => set(person, "pause", client, output).await,
        PersonCommand::Resume { person } => set(person, "resume", client, output).await,
    }
}

fn path(person: &str, rest: &str) -> String {
    format!("/v1/people/{}{rest}", segment(person))
}

async fn set(person: &str, word: &str, client: &Client, output: Output) -> Result<()> {
    let answer = client.post(&path(person, &format!("/{word}")), &json!({})).await;
    let answer = answer.map_err(|error| hinted(error, HINT))?;
    output.show(&answer, |_| match word {
        "pause" => format!("{person} is given nothing more; what they have they keep"),
        _ => format!("{person} is given work again"),
    })
}

fn page(people: &[Value]) -> String {
    if people.is_empty() {
        return "no people".to_owned();
    }
    table(people, &[("person", "person"), ("skills", "skills"), ("state", "state")])
}
