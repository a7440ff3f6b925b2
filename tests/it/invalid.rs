//! Bad objects are refused from files and by the API server alike: the same field, the same words.

use std::collections::BTreeSet;

use kube::Client;
use kube::error::Error;
use mcpfleet::manifest::{File, Options, Problem, read};
use serde_json::Value;

use crate::support::apiserver::ApiServer;
use crate::support::corpus::{Bad, corpus};

#[test]
fn files_with_bad_objects_name_the_field_and_the_fix() {
    let mut wrong = Vec::new();
    for bad in corpus() {
        let problems = problems(&bad);
        let words = bad.fix.as_ref().or(bad.hint.as_ref()).unwrap();
        let told = problems
            .iter()
            .any(|problem| problem.field.as_ref() == Some(&bad.field) && problem.message.contains(words));
        if !told {
            wrong.push(format!(
                "{}: expected {} and {words:?} in {problems:#?}",
                bad.name, bad.field
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_a_bad_example() {
    let told: BTreeSet<String> = corpus()
        .iter()
        .flat_map(problems)
        .map(|problem| problem.message)
        .collect();
    let definitions = serde_json::to_value(mcpfleet::api::definitions()).unwrap();
    let mut rules = BTreeSet::new();
    collect_rules(&definitions, &mut rules);
    assert!(rules.len() > 20);
    let without: Vec<_> = rules.difference(&told).collect();
    assert!(
        without.is_empty(),
        "no file in tests/invalid is refused by {without:#?}"
    );
}

#[tokio::test]
async fn the_api_server_refuses_them_for_the_same_reasons() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let client = server.client().await;
    let mut wrong = Vec::new();
    for bad in corpus() {
        let refusal = refusal(&client, &bad).await;
        let fix = bad.fix.as_deref().unwrap_or_default();
        if !names(&refusal, &bad.field) || !refusal.contains(fix) {
            wrong.push(format!("{}: expected {} and {fix:?} in {refusal}", bad.name, bad.field));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn problems(bad: &Bad) -> Vec<Problem> {
    let file = File {
        name: format!("{}.yaml", bad.name),
        text: bad.text.clone(),
    };
    let reading = read(&[file], &Options::default());
    reading.manifests.expect_err(&bad.name).0
}

fn collect_rules(value: &Value, rules: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            let own = members.get("x-kubernetes-validations").and_then(Value::as_array);
            rules.extend(
                own.into_iter()
                    .flatten()
                    .map(|rule| rule["message"].as_str().unwrap().to_owned()),
            );
            members.values().for_each(|member| collect_rules(member, rules));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_rules(item, rules)),
        _ => {}
    }
}

/// What the API server says to the object, created as by `kubectl apply`: unknown fields are refused.
async fn refusal(client: &Client, bad: &Bad) -> String {
    let object: Value = serde_yaml::from_str(&bad.text).unwrap();
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let path = format!("/apis/mcpfleet.dev/v1alpha1/namespaces/{namespace}/{plural}?dryRun=All&fieldValidation=Strict");
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(serde_json::to_vec(&object).unwrap()).unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => "nothing: it was taken".into(),
        Err(Error::Api(status)) => status.message.clone(),
        Err(other) => panic!("{}: {other}", bad.name),
    }
}

/// Whether a refusal names a field: as the field of a cause, as an unknown one, or in words of its own.
///
/// A key of a map is `[key]` where a rule refuses it, and `.key` where the schema does.
fn names(refusal: &str, field: &str) -> bool {
    let dotted = field.replace('[', ".").replace(']', "");
    let forms = [
        format!("{field}: "),
        format!("{dotted}: "),
        format!("\"{field}\""),
        format!("Invalid value: {field} "),
        format!("in {field}"),
    ];
    forms.iter().any(|form| refusal.contains(form))
}
