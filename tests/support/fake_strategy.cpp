#include "fake_strategy.hpp"

namespace cohort::test {

namespace {

RecordingBase& base_of(cohort_strategy* s) {
  return *static_cast<RecordingBase*>(s->data);
}

cohort_status record(cohort_strategy* s, const char* slot) {
  base_of(s).calls.emplace_back(slot);
  return base_of(s).result;
}

const cohort_strategy_vt& recording_table() {
  static const cohort_strategy_vt table = [] {
    cohort_strategy_vt vt{};
    vt.struct_size = sizeof vt;
    vt.plan = [](cohort_strategy* s, const cohort_job* job, cohort_plan* plan) noexcept {
      plan->processes_per_node = job->num_devices;
      plan->replicas_per_process = 1;
      plan->launch = COHORT_LAUNCH_EXEC;
      plan->collectives = "gloo";
      return record(s, "plan");
    };
    vt.init_dist_connection = [](cohort_strategy* s, cohort_dist_args* args) noexcept {
      base_of(s).last_dist_args = *args;
      return record(s, "init_dist_connection");
    };
    vt.configure_model = [](cohort_strategy* s) noexcept { return record(s, "configure_model"); };
    vt.begin_step = [](cohort_strategy* s, const cohort_step*) noexcept { return record(s, "begin_step"); };
    vt.plan_buckets = [](cohort_strategy* s, cohort_bucket_plan*) noexcept { return record(s, "plan_buckets"); };
    vt.layout_ready = [](cohort_strategy* s, int32_t) noexcept { return record(s, "layout_ready"); };
    vt.reduce_bucket = [](cohort_strategy* s, const cohort_step*, const cohort_bucket*) noexcept {
      return record(s, "reduce_bucket");
    };
    vt.end_backward = [](cohort_strategy* s, const cohort_step*) noexcept { return record(s, "end_backward"); };
    vt.clip_gradients = [](cohort_strategy* s, const cohort_step*, const cohort_clip_args*) noexcept {
      return record(s, "clip_gradients");
    };
    vt.optimizer_step = [](cohort_strategy* s, const cohort_step*) noexcept { return record(s, "optimizer_step"); };
    vt.end_step = [](cohort_strategy* s, const cohort_step*) noexcept { return record(s, "end_step"); };
    vt.pause = [](cohort_strategy* s, int32_t) noexcept { return record(s, "pause"); };
    vt.save_state = [](cohort_strategy* s) noexcept { return record(s, "save_state"); };
    vt.load_state = [](cohort_strategy* s) noexcept { return record(s, "load_state"); };
    vt.shutdown = [](cohort_strategy* s) noexcept { return record(s, "shutdown"); };
    vt.get_extension = [](cohort_strategy* s, const char*) noexcept -> const void* {
      record(s, "get_extension");
      return nullptr;
    };
    return vt;
  }();
  return table;
}

}  // namespace

RecordingBase::RecordingBase() {
  layer_.vt = &recording_table();
  layer_.data = this;
  layer_.top = &layer_;
}

LayerOver::LayerOver(const cohort_strategy_vt& vt, RecordingBase& base, const cohort_host* host) {
  layer_.vt = &vt;
  layer_.below = base.layer();
  layer_.top = &layer_;
  layer_.host = host;
}

LayerOver::~LayerOver() {
  if (layer_.vt->destroy) layer_.vt->destroy(&layer_);
}

cohort_status LayerOver::create(const char* variant, std::vector<cohort_key_value> options) {
  return layer_.vt->create(&layer_, variant, options.data(), options.size());
}

}  // namespace cohort::test
