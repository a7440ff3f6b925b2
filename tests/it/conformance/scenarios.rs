//! The server scenarios of each revision.

/// Those that `conformance list --requirements 2025-11-25` names, and those of later date that make sense with it.
macro_rules! scenarios_of_2025_11_25 {
    ($then:ident $($with:ident)*) => {
        $then! { [$($with)*]
            server_initialize
            logging_set_level
            ping
            completion_complete
            tools_list
            tools_call_simple_text
            tools_call_image
            tools_call_audio
            tools_call_embedded_resource
            tools_call_mixed_content
            tools_call_with_logging
            tools_call_error
            tools_call_with_progress
            tools_call_sampling
            tools_call_elicitation
            elicitation_sep1034_defaults
            server_sse_multiple_streams
            elicitation_sep1330_enums
            resources_list
            resources_read_text
            resources_read_binary
            resources_templates_read
            resources_subscribe
            resources_unsubscribe
            prompts_list
            prompts_get_simple
            prompts_get_with_args
            prompts_get_embedded_resource
            prompts_get_with_image
            dns_rebinding_protection
            server_session_lifecycle
            json_schema_2020_12
        }
    };
}

/// Those that `conformance list --requirements 2026-07-28` names, and those that are still pending.
macro_rules! scenarios_of_2026_07_28 {
    ($then:ident $($with:ident)*) => {
        $then! { [$($with)*]
            server_stateless
            completion_complete
            tools_list
            tools_call_simple_text
            tools_call_image
            tools_call_audio
            tools_call_embedded_resource
            tools_call_mixed_content
            tools_call_error
            tools_call_with_progress
            server_sse_multiple_streams
            resources_list
            resources_read_text
            resources_read_binary
            resources_templates_read
            sep_2164_resource_not_found
            prompts_list
            prompts_get_simple
            prompts_get_with_args
            prompts_get_embedded_resource
            prompts_get_with_image
            dns_rebinding_protection
            caching
            input_required_result_basic_elicitation
            input_required_result_basic_sampling
            input_required_result_basic_list_roots
            input_required_result_request_state
            input_required_result_multiple_input_requests
            input_required_result_multi_round
            input_required_result_missing_input_response
            input_required_result_non_tool_request
            input_required_result_result_type
            input_required_result_unsupported_methods
            input_required_result_tampered_state
            input_required_result_capability_check
            input_required_result_ignore_extra_params
            input_required_result_validate_input
            json_schema_2020_12
            http_header_validation
            http_custom_header_server_validation
        }
    };
}

/// Those that the suite has for 2025-06-18. It has only one for 2025-03-26, and can be told to run these there too.
macro_rules! scenarios_of_2025_06_18 {
    ($then:ident $($with:ident)*) => {
        $then! { [$($with)*]
            server_initialize
            server_session_lifecycle
            logging_set_level
            ping
            completion_complete
            tools_list
            tools_call_simple_text
            tools_call_image
            tools_call_audio
            tools_call_embedded_resource
            tools_call_mixed_content
            tools_call_with_logging
            tools_call_error
            tools_call_with_progress
            tools_call_sampling
            tools_call_elicitation
            resources_list
            resources_read_text
            resources_read_binary
            resources_templates_read
            resources_subscribe
            resources_unsubscribe
            prompts_list
            prompts_get_simple
            prompts_get_with_args
            prompts_get_embedded_resource
            prompts_get_with_image
        }
    };
}

/// The names alone.
macro_rules! names {
    ([] $($name:ident)*) => { &[$(stringify!($name)),*] };
}

pub(super) use {scenarios_of_2025_06_18, scenarios_of_2025_11_25, scenarios_of_2026_07_28};

/// The scenarios by their names in the tests.
pub(super) const OF_2025_06_18: &[&str] = scenarios_of_2025_06_18!(names);
pub(super) const OF_2025_11_25: &[&str] = scenarios_of_2025_11_25!(names);
pub(super) const OF_2026_07_28: &[&str] = scenarios_of_2026_07_28!(names);
