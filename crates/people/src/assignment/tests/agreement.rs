//! Agreement of answers, its report to the waiting execution, and the validation of answers.

use millstream_expr::ExprBudget;
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;

use super::fixture::{ItemFixture, person, queue, raw};
use crate::assignment::rules;

fn told(rest: &str, answers: &[&str]) -> (ItemFixture, serde_json::Value) {
    let mut desk = ItemFixture::new(&format!("overlap: {}, {rest}", answers.len()));
    let mut told = None;
    for (n, answer) in answers.iter().enumerate() {
        let one = desk.working(&format!("p{n}"));
        told = desk.submit(one, answer).told;
    }
    let payload = told.unwrap().payload.decode().unwrap();
    (desk, payload)
}

#[test]
fn agreement_expression_selects_compared_part() {
    let answers = [r#"{"verdict":"good","note":"a"}"#, r#"{"note":"b","verdict":"good"}"#];
    let (_, payload) = told("", &answers);
    assert_eq!((&payload["agreed"], &payload["agreement"]["largest"]), (&false.into(), &1.into()));
    let (_, payload) = told("agreement: answer.verdict", &answers);
    assert_eq!(payload["agreed"], serde_json::json!(true));
    assert_eq!(payload["agreement"]["value"], serde_json::json!("good"));
    assert_eq!(payload["answers"][1]["person"], serde_json::json!("p1"));
    assert_eq!(payload["answers"][1]["answer"]["note"], serde_json::json!("b"));
}

#[test]
fn agreement_ignores_key_order_and_number_format() {
    let (_, payload) = told("", &[r#"{"a":1,"b":[2.0]}"#, r#"{"b":[2],"a":1.0}"#]);
    assert_eq!(payload["agreed"], serde_json::json!(true));
}

#[test]
fn majority_answer_is_reported() {
    let (desk, payload) = told("", &["1", "2", "1"]);
    assert_eq!((&payload["agreed"], &payload["agreement"]["value"]), (&false.into(), &1.into()));
    assert_eq!(desk.work.item.agreement.as_ref().map(|agreement| agreement.answers), Some(3));
    let (_, payload) = told("", &["1", "2"]);
    assert_eq!(payload["agreement"]["value"], serde_json::Value::Null);
}

#[test]
fn oversized_answers_are_left_out() {
    let long = format!("\"{}\"", "x".repeat(60 * 1024));
    let long = long.as_str();
    let (_, payload) = told("", &[long; 2]);
    assert_eq!((payload["answers"].as_array().unwrap().len(), &payload["answers_left_out"]), (2, &().into()));
    let (_, payload) = told("", &[long; 4]);
    assert_eq!((payload["answers"].as_array().unwrap().len(), &payload["answers_left_out"]), (0, &4.into()));
    assert_eq!(payload["agreed"], true);
}

#[test]
fn all_broken_answer_rules_are_reported() {
    let queue = queue(
        r#"agreement: answer.label, rules: [
            {if: 'answer.score < 0', message: the score is negative, path: score},
            {if: 'answer.label == "" || person == item.author', message: no label},
            {if: 'answer.score + 1', message: odd}]"#,
    );
    let check = |answer: &str, who: &str| {
        let item = raw(r#"{"author":"ann"}"#);
        rules::check_answer(&queue, &raw(answer), &item, &person(who), Vec::new(), &ExprBudget::default())
    };
    let found = check(r#"{"score":-1,"label":"x"}"#, "ann");
    let paths: Vec<_> =
        found.iter().map(|problem| (problem.path.as_str(), problem.message.as_str())).collect();
    assert_eq!(paths[..2], [("score", "the score is negative"), ("", "no label")]);
    assert!(paths[2].1.contains("must return true or false"), "{paths:?}");
    let found = check(r#"{"label":"x"}"#, "bob");
    assert!(found[0].message.contains("there is no answer.score"), "{found:?}");
    let found = check("[]", "bob");
    assert!(found.last().unwrap().message.starts_with("the answer cannot be compared"), "{found:?}");
}

#[test]
fn schema_problems_skip_answer_rules() {
    let queue = queue("rules: [{if: 'answer.score < 0', message: no}]");
    let by_schema = vec![ValidationProblem::new("score", "must be a number")];
    let check = |answer: &RawJson, by_schema: Vec<ValidationProblem>| {
        rules::check_answer(&queue, answer, &raw("1"), &person("ann"), by_schema, &ExprBudget::default())
    };
    assert_eq!(check(&raw("1"), by_schema.clone()), by_schema);
    let huge = raw(&format!("{:?}", "x".repeat(70_000)));
    assert!(check(&huge, Vec::new())[0].message.contains("larger"));
}

#[test]
fn answer_comparison_shares_one_budget() {
    let ones = format!("[{}1]", "1,".repeat(20_000));
    let ones = ones.as_str();
    let (_, payload) = told("agreement: 'answer.all(x, x == 1)'", &[ones; 2]);
    assert_eq!(payload["agreed"], true);
    let (_, payload) = told("agreement: 'answer.all(x, x == 1)'", &[ones; 40]);
    assert_eq!(payload["agreed"], false);
}
