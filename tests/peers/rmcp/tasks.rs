//! Tools that become tasks, where their client takes some: those that the conformance suite looks for.

use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock, CreateTaskResult,
    ErrorData, GetTaskParams, GetTaskResult, InputRequest, InputRequiredResult, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::{Value, json};

/// A server that makes tasks. All its sessions have them in common.
#[derive(Clone, Default)]
pub(crate) struct Worker(TaskManager);

const TOOLS: [&str; 7] = [
    "greet",
    "slow_compute",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
];

impl ServerHandler for Worker {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema: JsonObject = json!({"type": "object"}).as_object().cloned().unwrap_or_default();
        let tool = |name: &'static str| Tool::new(name, name, schema.clone());
        Ok(ListToolsResult::with_all_items(TOOLS.map(tool).into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let takes_tasks = context.client_capabilities().is_some_and(|own| own.supports_tasks());
        let arguments = request.arguments.clone().unwrap_or_default();
        let seconds = arguments.get("seconds").and_then(Value::as_f64).unwrap_or_default();
        match &*request.name {
            "greet" => Ok(text(&format!(
                "Hello, {}!",
                arguments.get("name").and_then(Value::as_str).unwrap_or_default()
            ))
            .into()),
            "slow_compute" if !takes_tasks => {
                tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                Ok(text("computed").into())
            }
            "slow_compute" => Ok(self.begin(async move |task| {
                tokio::select! {
                    () = task.cancelled() => Err(TaskExit::Cancelled),
                    () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => Ok(text("computed")),
                }
            })),
            "failing_job" => Ok(self.begin(async |_| {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(CallToolResult::error(vec![ContentBlock::text("it failed")]))
            })),
            "protocol_error_job" => {
                Ok(self.begin(async |_| Err(TaskExit::Error(ErrorData::internal_error("it broke", None)))))
            }
            "confirm_delete" => Ok(self.begin(async |task| {
                let answer = task.request_input("confirm", question("Delete it?")?).await?;
                Ok(text(&format!("confirmed: {answer}")))
            })),
            "multi_input" => Ok(self.begin(async |task| {
                let (first, second) = (question("The first?")?, question("The second?")?);
                let (first, second) =
                    tokio::try_join!(task.request_input("first", first), task.request_input("second", second))?;
                Ok(text(&format!("{first} and {second}")))
            })),
            "test_tool_with_task" if request.input_responses.is_none() => {
                let asked = json!({
                    "resultType": "input_required", "requestState": "begun",
                    "inputRequests": {"user_name": question("Name?").map_err(|_| broken())?},
                });
                let asked: InputRequiredResult = serde_json::from_value(asked).map_err(|_| broken())?;
                Ok(asked.into())
            }
            "test_tool_with_task" => {
                let answers = json!(request.input_responses).to_string();
                Ok(self.begin(async move |_| Ok(text(&answers))))
            }
            name => Err(ErrorData::invalid_params(format!("no tool {name}"), None)),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.0.get_task(&request.task_id)?))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.0.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.0.cancel_task(&request.task_id)
    }
}

impl Worker {
    fn begin<F>(&self, work: impl FnOnce(TaskContext) -> F + Send + 'static) -> CallToolResponse
    where
        F: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static,
    {
        let options = TaskOptions::new().with_poll_interval_ms(100);
        let task = self.0.spawn(options, |task| Box::pin(work(task)));
        CreateTaskResult::new(task).into()
    }
}

fn text(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn question(message: &str) -> Result<InputRequest, TaskExit> {
    let properties = json!({"confirm": {"type": "boolean"}, "name": {"type": "string"}});
    let question = json!({"method": "elicitation/create", "params": {
        "mode": "form", "message": message, "requestedSchema": {"type": "object", "properties": properties},
    }});
    serde_json::from_value(question).map_err(|_| TaskExit::Error(broken()))
}

fn broken() -> ErrorData {
    ErrorData::internal_error("a question is malformed", None)
}
