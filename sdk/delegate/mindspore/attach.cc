// Giving a delegate to a session of MindSpore Lite.
//
// Context::SetDelegate is the public way. The wheel of 2.0.0 has it switched off, though its sessions still honour a
// delegate: LiteSession::DelegateInit starts the one in the session's InnerContext. That function is called through the
// dynamic linker, so one of the same name that is found before it can put the delegate there and go on to the real one.
// Where the members are is known for that wheel alone; elsewhere nothing is touched.
#include <dlfcn.h>

#include <cstring>

#include "text.h"
#include "tpulayer_mindspore.h"

namespace tpulayer {
namespace {
constexpr size_t kContextInSession = 0x88;  // LiteSession: its InnerContext *
constexpr size_t kDelegateInContext = 0x68;  // InnerContext: std::shared_ptr<Delegate>
constexpr char kVersion[] = "2.0.0";

thread_local std::shared_ptr<mindspore::Delegate> attached;

// The function of the library that called, not this one.
using InitFunction = int (*)(void *);
InitFunction RealInit(void *caller) {
  Dl_info info;
  if (!dladdr(caller, &info) || !info.dli_fname) return nullptr;
  void *library = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  if (!library) return nullptr;
  void *found = dlsym(library, "_ZN9mindspore4lite11LiteSession12DelegateInitEv");
  dlclose(library);
  return reinterpret_cast<InitFunction>(found);
}

bool CalledByRuntime(void *caller) {
  Dl_info info;
  return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "msplugin") != nullptr;
}
}  // namespace

void Attach(const std::shared_ptr<mindspore::Context> &context, const std::shared_ptr<TpuLayerDelegate> &delegate) {
  attached = nullptr;
  if (!context || !delegate) return;
#ifdef TPULAYER_PLAIN_DELEGATE
  context->SetDelegate(delegate);
#else
  if (mindspore::Version().find(kVersion) == std::string::npos) {
    context->SetDelegate(delegate);
    return;
  }
  attached = delegate;
#endif
}

namespace {
int Init(char *session, void *caller) {
  if (attached && CalledByRuntime(caller)) {
    char *context;
    memcpy(&context, session + kContextInSession, sizeof context);
    auto *place = reinterpret_cast<std::shared_ptr<mindspore::Delegate> *>(context + kDelegateInContext);
    if (!*place) *place = attached;
    attached = nullptr;
  }
  const InitFunction real = RealInit(caller);
  if (!real) {
    Fail("LiteSession::DelegateInit is not found in the library that calls it");
    return -1;
  }
  return real(session);
}
}  // namespace
}  // namespace tpulayer

extern "C" TPULAYER_API int _ZN9mindspore4lite11LiteSession12DelegateInitEv(char *session) {
  return tpulayer::Init(session, __builtin_return_address(0));
}
