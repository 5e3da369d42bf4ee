import './base.css';
import './composer.css';
