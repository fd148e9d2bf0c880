// A delegate for MindSpore Lite: what the TPU can do of a model runs on a BM1684, the rest on the framework's own
// kernels. Needs a C++ compiler with the C++ library and the ABI of the MindSpore Lite that is used (for the wheel of
// 2.0.0 on PyPI: g++ -D_GLIBCXX_USE_CXX11_ABI=0), and libtpulayer_mindspore.so linked before MindSpore's libraries.
//
//   tpulayer::Config config;
//   config.device = 0;
//   auto delegate = std::make_shared<tpulayer::TpuLayerDelegate>(config);
//   tpulayer::Attach(context, delegate);   // context->SetDelegate(delegate), where the build lets it
//   model.Build("model.ms", mindspore::kMindIR_Lite, context);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "include/api/context.h"
#include "include/api/delegate.h"

#define TPULAYER_API __attribute__((visibility("default")))

namespace tpulayer {
struct Config {
  int device = 0;          // of libbmlib
  int opt = 2;             // as of `tpulayer compile`
  bool dynamic = false;    // nets take shapes up to those they were compiled for; otherwise ReSize compiles anew
  int least = 1;           // operations that a run of them must have to be worth a partition
  int most = 0;            // partitions; 0: any number
  std::string workspace;   // whose layers are there beside the built-in ones; "": that around the current folder
};

// Reads "device=0,opt=2,dynamic=1,least=1,most=0,workspace=DIR"; returns what is wrong, "" for nothing.
TPULAYER_API std::string ParseConfig(const std::string &text, Config *config);

class Model;

// What one operation became: `why` is "" where the TPU does it.
struct Verdict {
  std::string name, kind, why;
  int partition = -1;
};

class TPULAYER_API TpuLayerDelegate : public mindspore::Delegate {
 public:
  explicit TpuLayerDelegate(const Config &config = Config());
  ~TpuLayerDelegate() override;

  // kLiteNotSupport where there is no such device, no firmware for it, or no compiler: the framework's own kernels
  // then do everything.
  mindspore::Status Init() override;
  // Asks the compiler about every operation, and puts a TpuLayerGraph in the place of each run that the TPU can do.
  mindspore::Status Build(mindspore::DelegateModel<mindspore::schema::Primitive> *model) override;

  const std::vector<Verdict> &Verdicts() const { return verdicts_; }
  // Lines for people and programs: `note operations N of M`, `note kept KIND NAME WHY`, `note counters ...`.
  std::string Notes() const;

 private:
  bool Asked(const Model &model, std::vector<std::string> *told) const;
  std::string Unwanted(size_t operations) const;  // why so many are not to be one more partition; "" for nothing

  struct Parts;
  Config config_;
  std::vector<Verdict> verdicts_;
  std::shared_ptr<Parts> parts_;
};

// Make a model that is built with this context use the delegate: Context::SetDelegate. The wheel of 2.0.0 has that
// switched off ("Unsupported Feature."); with it every model uses the delegate that this thread builds from here on,
// until the next Attach. A null delegate changes nothing there, and ends that.
TPULAYER_API void Attach(const std::shared_ptr<mindspore::Context> &context,
                         const std::shared_ptr<TpuLayerDelegate> &delegate);

// Make the runtime know Custom primitives of this type, which is the name of a layer such as TPU_DOUBLE: before a model
// with one is built. The layer runs on the TPU alone.
TPULAYER_API bool RegisterLayer(const std::string &layer);

// What went wrong last, behind `before`; "" when nothing did since Attach was called with a delegate.
TPULAYER_API std::string LastError(const std::string &before = "");
}  // namespace tpulayer
