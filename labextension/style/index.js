import './base.css';
import './messages.css';
import './calls.css';
import './questions.css';
import './composer.css';
import './pages.css';
import './notebook.css';
