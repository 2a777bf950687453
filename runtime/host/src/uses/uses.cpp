#include <cohort/host/uses.hpp>

#include <algorithm>
#include <array>

#include <cohort/api/accelerator.h>
#include <cohort/api/tensor.h>
#include <cohort/host/crash_report.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/strategy_layers.hpp>

namespace cohort::host {
namespace {

constexpr std::array kUses{
    UseText{COHORT_USE_ALONE, "alone", "use several devices without a launcher"},
    UseText{COHORT_USE_LAUNCHED, "launched", "be one of several ranks that a launcher has started"},
    UseText{COHORT_USE_NODES, "nodes", "train on several nodes"},
    UseText{COHORT_USE_DEVICE_TYPE, "gpu", "use GPUs"},
    UseText{COHORT_USE_OWN_LOOP, "own-loop", "serve a loop of one's own (Session)"},
    UseText{COHORT_USE_ACCUMULATION, "accumulate", "accumulate gradients over batches"},
    UseText{COHORT_USE_CLIPPING, "clip", "clip gradients"},
    UseText{COHORT_USE_PHASES, "optimizers", "train with several optimizers"},
    UseText{COHORT_USE_BY_HAND, "by-hand", "let training_step run the optimizers by hand"},
    UseText{COHORT_USE_CLOSURES, "lbfgs", "train with LBFGS"},
    UseText{COHORT_USE_LOSS_SCALER, "16-mixed", "train in float16, whose losses are scaled"},
    UseText{COHORT_USE_PRECISION, "16-true", "train a model of 16-bit copies of its weights (16-true)"},
    UseText{COHORT_USE_JOIN, "join", "go on with ranks that have no batch left"},
};

/// A use that is no column of the table.
constexpr std::string_view kReplaySteps = "replay captured steps";

/// A component that is asked, and what it is told about itself.
struct Asked {
  const cohort_component& component;
  std::string who;
  std::string flag;
  const char* variant;
  const CheckedOptions& options;
  std::string below;
};

std::string text_or(const char* text, const std::string& otherwise) {
  return text == nullptr || *text == '\0' ? otherwise : on_one_line(text);
}

/// Returns what holds for a component that does not answer.
Answer default_of(const Asked& asked, const UseQuery& query) {
  const auto no = [&](const char* why, const std::string& way_out) {
    return Answer{COHORT_ANSWER_NO, asked.who, why, way_out, asked.flag};
  };
  switch (query.use) {
    case COHORT_USE_CLOSURES:
      return no("it does not say that its steps can repeat their backward",
                "choose another optimizer, or another --" + asked.flag);
    case COHORT_USE_LOSS_SCALER:
      return no("it does not say that it takes skipped steps",
                "choose --precision=bf16-mixed, or another --" + asked.flag);
    case COHORT_USE_GRAPH:
      return no("it does not say that its steps can be captured",
                "choose another --" + asked.flag + ", or leave --graph out");
    case COHORT_USE_JOIN:
      return no("it does not say that zeros may stand for a rank's gradients",
                "choose another --" + asked.flag + ", or leave --uneven=join out");
    case COHORT_USE_DEVICES:
      return no("it does not say that it takes buckets on several devices",
                "move the model to one device before training, or choose another --" + asked.flag);
    default:
      return {};
  }
}

Answer ask(PluginHost& plugins, const Asked& asked, const UseQuery& query) {
  if (asked.component.supports == nullptr) return default_of(asked, query);
  cohort_query question{};
  question.struct_size = sizeof question;
  question.use = query.use;
  question.value = query.value;
  question.world_size = query.world_size;
  question.num_nodes = query.num_nodes;
  question.local_world_size = query.local_world_size;
  question.replicas = query.replicas;
  question.variant = asked.variant;
  question.options = asked.options.data();
  question.num_options = asked.options.size();
  question.below_spec = asked.below.c_str();
  {
    const PluginCall call(HostObject::of(plugins.plain_host()).log(), asked.who, "supports");
    asked.component.supports(plugins.plain_host(), &question);
  }
  switch (question.answer) {
    case COHORT_ANSWER_UNKNOWN:
      return default_of(asked, query);
    case COHORT_ANSWER_YES:
      return {question.answer};
    case COHORT_ANSWER_NO:
      return {question.answer, asked.who, text_or(question.why, "it gives no reason"),
              text_or(question.fix, "leave --" + asked.flag + " out, or choose another one"), asked.flag};
    default:
      throw PluginRefused(asked.who + ", supports: the answer " + std::to_string(question.answer) +
                          " is none; set answer to a COHORT_ANSWER_ constant");
  }
}

bool is_free(const cohort_component& component) {
  return component.inherits != nullptr && std::string_view(component.inherits) == "*";
}

Asked asked_of(PluginHost& plugins, const LayerBlueprint& layer, const StrategySpec& strategy) {
  const cohort_component& component = plugins.open(Kind::kStrategy, layer.name);
  Asked asked{component, "strategy " + in_quotes(strategy.name), "strategy", layer.variant.c_str(), layer.options, ""};
  if (is_free(component)) {
    asked.who = "layer " + in_quotes(layer.name);
    asked.flag = "layer";
    asked.below = to_string(strategy);
  } else if (layer.name != strategy.name) {
    asked.who += " (by " + in_quotes(layer.name) + ", which it inherits)";
  } else if (!strategy.variant.empty()) {
    asked.who = "strategy " + in_quotes(strategy.name + ":" + strategy.variant);
  }
  return asked;
}

Answer ask_collective_about(PluginHost& plugins, const cohort_component& component, const CollectiveSpec& spec,
                            const UseQuery& query) {
  const std::string who = "collective " + in_quotes(component.name);
  const CheckedOptions options = check_options({component.options, component.num_options}, spec.options, who);
  return ask(plugins, {component, who, "collective", spec.variant.c_str(), options, ""}, query);
}

}  // namespace

std::span<const UseText> uses() {
  return kUses;
}

std::string Answer::reason(std::string_view use) const {
  return who + " cannot " + std::string(use) + ": " + why;
}

std::string Answer::text(std::string_view use) const {
  return reason(use) + "; " + fix;
}

Answer ask_strategy(PluginHost& plugins, const StrategySpec& strategy, std::span<const Spec> layers,
                    const UseQuery& query) {
  if (plugins.find(Kind::kStrategy, strategy.name) == nullptr) return {};
  std::vector<LayerBlueprint> stack = resolve_layers(plugins, strategy, layers);
  StrategySpec chosen = strategy;
  if (!stack.empty()) chosen.variant = stack.front().variant;
  Answer together;
  for (auto layer = stack.rbegin(); layer != stack.rend(); ++layer) {
    Answer answer = ask(plugins, asked_of(plugins, *layer, chosen), query);
    if (answer.is_no()) return answer;
    if (answer.answer == COHORT_ANSWER_YES) together = std::move(answer);
  }
  return together;
}

Answer ask_collective(PluginHost& plugins, const cohort_component& component, const CollectiveSpec& spec,
                      int32_t device_type, UseQuery group) {
  const auto about = [&](int32_t use, int64_t value) {
    group.use = use;
    group.value = value;
    return ask_collective_about(plugins, component, spec, group);
  };
  Answer answer = about(COHORT_USE_DEVICE_TYPE, device_type);
  if (answer.is_no()) return answer;
  if (answer.answer == COHORT_ANSWER_UNKNOWN && device_type != COHORT_DEVICE_CPU) {
    return {COHORT_ANSWER_NO, "collective " + in_quotes(component.name),
            "it does not say that it moves memory of this device", "choose another --collective", "collective"};
  }
  if (answer = about(COHORT_USE_RANKS, group.world_size); answer.is_no() || group.num_nodes <= 1) return answer;
  return about(COHORT_USE_NODES, group.num_nodes);
}

Answer ask_if_chosen_unnamed(PluginHost& plugins, const cohort_component& component, const CollectiveSpec& spec) {
  UseQuery query;
  query.use = COHORT_USE_UNNAMED;
  return ask_collective_about(plugins, component, spec, query);
}

Answer ask_accelerator(PluginHost& plugins, const std::string& name, const UseQuery& query) {
  const cohort_component& component = plugins.open(Kind::kAccelerator, name);
  const std::string who = "accelerator " + in_quotes(name);
  const CheckedOptions options = check_options({component.options, component.num_options}, {}, who);
  Answer answer = ask(plugins, {component, who, "accelerator", "", options, ""}, query);
  const bool is_cpu = static_cast<const cohort_accelerator_vt*>(component.vtable)->device_type == COHORT_DEVICE_CPU;
  if (answer.answer == COHORT_ANSWER_UNKNOWN && query.use == COHORT_USE_FORK && !is_cpu) {
    return {COHORT_ANSWER_NO, who, "a process that uses its devices cannot be forked", "choose --strategy=ddp",
            "accelerator"};
  }
  return answer;
}

void require_use(PluginHost& plugins, const StrategySpec& strategy, std::span<const Spec> layers,
                 const UseQuery& query) {
  const Answer answer = ask_strategy(plugins, strategy, layers, query);
  if (!answer.is_no()) return;
  const auto use = std::ranges::find(kUses, query.use, &UseText::use);
  const std::string_view otherwise = query.use == COHORT_USE_GRAPH ? kReplaySteps : "serve this job";
  throw UserError(answer.text(use == kUses.end() ? otherwise : use->meaning));
}

void require_graphs(PluginHost& plugins, const StrategySpec& strategy, std::span<const Spec> layers,
                    const CollectiveSpec& collective, UseQuery job) {
  job.use = COHORT_USE_GRAPH;
  require_use(plugins, strategy, layers, job);
  if (job.world_size == 1 || collective.name.empty()) return;
  const cohort_component& component = plugins.open(Kind::kCollective, collective.name);
  const Answer answer = ask_collective_about(plugins, component, collective, job);
  if (answer.is_no()) throw UserError(answer.text(kReplaySteps));
}

}  // namespace cohort::host
